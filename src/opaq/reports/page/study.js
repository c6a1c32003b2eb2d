// The page of a study: the plot and the table show the same points and follow each other.

function startStudy() {
  themeButton();
  const data = readData('study');
  if (data === null) {
    document.documentElement.classList.add('broken');
    return;
  }
  const columns = columnsOf(data);
  let plot = null;
  let table = null;
  const select = (index, options) => {
    plot?.show(index);
    table?.select(index, options);
    if (options?.go) history.replaceState(null, '', `#point=${encodeURIComponent(data.points[index].point)}`);
  };
  plot = attempt(
    'plot',
    () =>
      new PointPlot(part('plot', 'body'), data, columns, {
        onSelect: (index) => select(index),
        onGo: (index) => select(index, { go: true }),
      }),
  );
  table = attempt(
    'points',
    () =>
      new PointTable(part('points', 'body'), data, columns, {
        onFilter: (kept) => plot?.keep(kept),
        onSelect: (index) => select(index),
      }),
  );
  const follow = () => {
    const name = new URLSearchParams(location.hash.slice(1)).get('point');
    const index = data.points.findIndex((point) => point.point === name);
    if (name !== null && index >= 0) select(index, { go: true });
  };
  addEventListener('hashchange', follow);
  follow();
  window.opaqStudy = { order: () => table.order.map((index) => data.points[index].point), select };
}

startStudy();
