// Charts: lines over time with a readout, and stacked bars. Each is drawn anew for the width it has.

/** An empty plot of this size. */
function plotOf(width, height, attributes) {
  return svg('svg', { class: 'plot', width, height, viewBox: `0 0 ${width} ${height}`, ...attributes });
}

function niceTicks(low, high, most) {
  const span = high - low || 1;
  const rough = span / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const ticks = [];
  for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + step * 1e-9; tick += step) ticks.push(tick);
  return { ticks, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9) + (step / power === 2.5 ? 1 : 0)) };
}

function extent(values, { zero = false } = {}) {
  const finite = values.filter(Number.isFinite);
  let low = zero ? 0 : Infinity;
  let high = zero ? 0 : -Infinity;
  for (const value of finite) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (!(high > low)) return [Number.isFinite(low) ? Math.min(0, low) : 0, (Number.isFinite(high) ? high : 0) || 1];
  return [low, high + (high - low) * 0.04];
}

const chartFrame = { left: 46, right: 14, top: 10, bottom: 38 };

function axes(picture, { width, height, x, y, xTicks, yTicks, xLabel, xWords, yWords }) {
  const { left, right, bottom } = chartFrame;
  for (const tick of yTicks.ticks) {
    picture.append(
      svg('line', { class: 'rule', x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
      svg('text', {
        class: 'tick',
        x: left - 8,
        y: y(tick) + 4,
        'text-anchor': 'end',
        text: yWords ? yWords(tick) : minus(tick.toFixed(yTicks.digits)),
      }),
    );
  }
  for (const tick of xTicks.ticks) {
    const text = xWords ? xWords(tick) : minus(tick.toFixed(xTicks.digits));
    picture.append(svg('text', { class: 'tick', x: x(tick), y: height - bottom + 17, 'text-anchor': 'middle', text }));
  }
  picture.append(
    svg('line', { class: 'axis', x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }),
    svg('text', {
      class: 'axis-name',
      x: (left + width - right) / 2,
      y: height - 4,
      'text-anchor': 'middle',
      text: xLabel,
    }),
  );
}

const pathOf = (points) =>
  points.map(([x, y], index) => `${index ? 'L' : 'M'}${x.toFixed(1)},${y.toFixed(1)}`).join('');

/** The whole numbers a time axis can show. */
const wholeTicks = (ticks) => ({
  ticks: ticks.ticks.filter((tick) => Math.abs(tick - Math.round(tick)) < 1e-9),
  digits: 0,
});

/**
 * Lines over a common x. series: [{name, values, kind, low, high}], marks: [{value, name}] are level lines.
 * Gives {cursor(x)}, which moves a vertical line.
 */
function lineChart(
  host,
  { label, xs, xLabel, series, marks = [], height = 220, zero = true, digits = 3, whole = true },
) {
  const all = series.flatMap((line) => [...line.values, ...arrayOf(line.low), ...arrayOf(line.high)]);
  const [low, high] = extent([...all, ...marks.map((mark) => mark.value)], { zero });
  const readout = el('p', { class: 'readout', 'aria-hidden': 'true' });
  const figure = el('div', { class: 'chart' });
  let at = null;
  let place = () => {};
  const words = (index) => {
    const values = series.map(
      (line) => `${line.name} ${number(line.values[index], digits)}${line.unit ? ` ${line.unit}` : ''}`,
    );
    return `At ${xLabel} ${xs[index].toLocaleString('en')}: ${values.join(', ')}`;
  };
  const rest = () => (readout.textContent = words(at === null ? xs.length - 1 : Math.max(0, xs.indexOf(at))));
  host.append(legendOf(series, marks), figure, readout);
  onWidth(figure, (width) => {
    const { left, right, bottom } = chartFrame;
    const [first, last] = [xs[0], xs[xs.length - 1]];
    const x = (value) => left + ((value - first) / (last - first || 1)) * (width - left - right);
    const y = (value) => height - bottom - ((value - low) / (high - low)) * (height - bottom - chartFrame.top);
    const picture = plotOf(width, height, { role: 'img', 'aria-label': label });
    const xTicks = niceTicks(first, last, Math.max(2, Math.floor(width / 80)));
    axes(picture, {
      width,
      height,
      x,
      y,
      xTicks: whole ? wholeTicks(xTicks) : xTicks,
      yTicks: niceTicks(low, high, 4),
      xLabel,
    });
    for (const mark of marks)
      picture.append(
        svg('line', { class: 'level', x1: left, x2: width - right, y1: y(mark.value), y2: y(mark.value) }),
      );
    for (const [index, line] of series.entries()) {
      const kind = line.kind ?? `line-${index % 4}`;
      if (line.low) {
        const upper = xs.map((value, i) => [x(value), y(line.high[i])]);
        const lower = xs.map((value, i) => [x(value), y(line.low[i])]).reverse();
        picture.append(svg('path', { class: `band ${kind}`, d: `${pathOf([...upper, ...lower])}Z` }));
      }
      const points = xs
        .map((value, i) => [x(value), y(line.values[i])])
        .filter((point) => point.every(Number.isFinite));
      picture.append(svg('path', { class: `line ${kind}`, d: pathOf(points) }));
      if (points.length <= 40) {
        for (const [cx, cy] of points) picture.append(svg('circle', { class: `dot ${kind}`, cx, cy, r: 2.6 }));
      }
    }
    const cursor = svg('line', { class: 'cursor', y1: chartFrame.top, y2: height - bottom, visibility: 'hidden' });
    picture.append(cursor);
    const show = (value) => {
      cursor.setAttribute('visibility', value === null ? 'hidden' : 'visible');
      if (value !== null) for (const end of ['x1', 'x2']) cursor.setAttribute(end, x(value));
    };
    picture.addEventListener('pointermove', (event) => {
      const value =
        first +
        ((event.clientX - picture.getBoundingClientRect().left - left) / (width - left - right)) * (last - first);
      let near = 0;
      for (let i = 1; i < xs.length; i += 1) if (Math.abs(xs[i] - value) < Math.abs(xs[near] - value)) near = i;
      readout.textContent = words(near);
      show(xs[near]);
    });
    picture.addEventListener('pointerleave', () => (show(at), rest()));
    figure.replaceChildren(picture);
    place = show;
    place(at);
  });
  rest();
  return { cursor: (value) => (place((at = value)), rest()) };
}

function legendOf(series, marks = []) {
  const drawn = (line) => line.values.some(Number.isFinite);
  const entries = series.flatMap((line, index) =>
    drawn(line) ? [[line.kind ?? `line-${index % 4}`, line.unit ? `${line.name} (${line.unit})` : line.name]] : [],
  );
  const levels = marks.map((mark) => ['level', mark.name]);
  const unique = new Map([...entries, ...levels].map((entry) => [entry.join(' '), entry]));
  return el(
    'ul',
    { class: 'legend' },
    ...[...unique.values()].map(([kind, name]) =>
      el('li', {}, el('span', { class: `stroke ${kind}`, 'aria-hidden': 'true' }), name),
    ),
  );
}

const inPercent = (share) => `${Math.round(1000 * share) / 10}%`;

/** Stacked bars. bars: [{from, to, parts: [values]}], names: of the parts. */
function stackedBars(host, { label, bars, names, kinds, xLabel, height = 220 }) {
  const total = (bar) => bar.parts.reduce((sum, value) => sum + value, 0);
  const high = Math.max(...bars.map(total), 1e-9) * 1.04;
  const [first, last] = [bars[0].from, bars[bars.length - 1].to];
  const figure = el('div', { class: 'chart' });
  const words = (bar) => {
    const parts = names.map((name, index) => `${name} ${percent(bar.parts[index])}`);
    return `At a ${xLabel} of ${percent(bar.from, 0)} to ${percent(bar.to, 0)}: ${parts.join(', ')}`;
  };
  const fullest = bars.reduce((one, other) => (total(other) > total(one) ? other : one));
  const readout = el('p', { class: 'readout', 'aria-hidden': 'true', text: words(fullest) });
  const key = names.flatMap((name, index) =>
    bars.some((bar) => bar.parts[index] > 0)
      ? [el('li', {}, el('span', { class: `block ${kinds[index]}`, 'aria-hidden': 'true' }), name)]
      : [],
  );
  host.append(el('ul', { class: 'legend' }, ...key), figure, readout);
  onWidth(figure, (width) => {
    const { left, right, bottom, top } = chartFrame;
    const x = (value) => left + ((value - first) / (last - first)) * (width - left - right);
    const y = (value) => height - bottom - (value / high) * (height - bottom - top);
    const picture = plotOf(width, height, { role: 'img', 'aria-label': label });
    const yTicks = niceTicks(0, high, 4);
    const xTicks = niceTicks(first, last, Math.max(2, Math.floor(width / 90)));
    axes(picture, { width, height, x, y, xTicks, yTicks, xLabel, xWords: inPercent, yWords: inPercent });
    for (const bar of bars) {
      let below = 0;
      const inner = { x: x(bar.from) + 1, width: Math.max(1, x(bar.to) - x(bar.from) - 2) };
      bar.parts.forEach((value, index) => {
        const tall = y(below) - y(below + value);
        if (value > 0)
          picture.append(
            svg('rect', { class: `block ${kinds[index]}`, ...inner, y: y(below + value), height: Math.max(0.8, tall) }),
          );
        below += value;
      });
    }
    picture.addEventListener('pointermove', (event) => {
      const value =
        first +
        ((event.clientX - picture.getBoundingClientRect().left - left) / (width - left - right)) * (last - first);
      const bar = bars.find((candidate) => value >= candidate.from && value < candidate.to);
      readout.textContent = words(bar ?? fullest);
    });
    picture.addEventListener('pointerleave', () => (readout.textContent = words(fullest)));
    figure.replaceChildren(picture);
  });
}

/** A bar inside a table or list, from 0 to 1. */
function barOf(share, kind = '', mark = null) {
  const clipped = 100 * Math.min(1, Math.max(0, share));
  const bar = el('span', { class: `bar ${kind}`, 'aria-hidden': 'true' }, el('span', { class: 'bar-filled' }));
  bar.firstChild.style.width = `${clipped}%`;
  if (mark !== null) {
    bar.append(el('span', { class: 'bar-mark' }));
    bar.lastChild.style.left = `${100 * Math.min(1, Math.max(0, mark))}%`;
  }
  return bar;
}

/**
 * A table. head: [{text, kind, unseen}], rows of texts and nodes; `unseen` heads are for screen readers only.
 * Where it is narrow a table with `cards` puts every row on a card of its own, other ones scroll sideways.
 */
function tableOf(label, head, rows, { cards = false } = {}) {
  const headOf = ({ text, kind, unseen }) =>
    el(
      'th',
      { class: kind, scope: 'col', role: cards && 'columnheader' },
      unseen ? el('span', { class: 'unseen', text }) : text,
    );
  const cell = (content, { text, kind, unseen }) =>
    el(
      'td',
      {
        class: [kind, content === '' ? 'empty' : null].filter(Boolean).join(' ') || null,
        role: cards && 'cell',
        'data-head': cards && !unseen && text,
      },
      content instanceof Node ? content : String(content),
    );
  return el(
    'div',
    { class: cards ? 'scroller carded' : 'scroller', tabindex: '0', role: 'region', 'aria-label': label },
    el(
      'table',
      { role: cards && 'table' }, // roles said aloud: a browser forgets them where cells are no longer table cells
      el('thead', { role: cards && 'rowgroup' }, el('tr', { role: cards && 'row' }, ...head.map(headOf))),
      el(
        'tbody',
        { role: cards && 'rowgroup' },
        ...rows.map((row) =>
          el('tr', { role: cards && 'row' }, ...row.map((content, index) => cell(content, head[index]))),
        ),
      ),
    ),
  );
}
