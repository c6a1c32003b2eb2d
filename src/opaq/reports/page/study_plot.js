// The plot of a study: two figures of every point, the best of them joined. Axes and colours are chosen.

const PLOT_HEIGHT = 400;
const NEAR = 28; // pixels from which a point is pointed at
const MOST_COLOURS = 8;
const MOST_DETAILED = 400; // points; of more only those that are joined show bounds and intervals
const CLOSE = 1e-4; // of the axis: nearer points count as one

class PointPlot {
  /** onSelect(index), onGo(index): a point was looked at, or chosen. */
  constructor(host, data, columns, { onSelect, onGo }) {
    Object.assign(this, { data, columns, onSelect, onGo });
    this.kept = new Set(data.points.keys());
    this.focus = null;
    const numeric = columns.filter((column) => column.numeric && column.values().length > 0);
    const traded = data.against === 'return' ? 'return' : 'value';
    const across = columns.filter((column) => numeric.includes(column) || this.isOfWords(column));
    const varied = across.filter((column) => column.parameter && column.values().length > 1);
    this.x =
      (data.source === 'sweep' && (varied.find((column) => column.numeric) ?? varied[0])) ||
      (numeric.find((column) => !column.parameter && column.key === traded) ?? numeric[0]);
    this.y =
      numeric.find((column) => !column.parameter && column.key === data.objective.of) ??
      numeric.find((column) => !column.parameter && column.key === 'objective') ??
      numeric.find((column) => column.key === 'opacity') ??
      numeric.at(-1);
    this.colours = columns.filter((column) => column.parameter && column.values().length > 1);
    this.colour =
      this.colours
        .filter((column) => column.values().length <= MOST_COLOURS)
        .sort((one, other) => one.values().length - other.values().length)[0] ?? null;
    if (data.source === 'frontier' || this.colour === this.x) this.colour = null;
    this.box = el('div', { class: 'chart plot-box', tabindex: '0', role: 'application' });
    this.legend = el('ul', { class: 'legend' });
    this.card = el('div', { class: 'inspector', role: 'status', 'aria-live': 'polite' });
    host.append(this.choices(numeric, across), this.legend, this.box, this.card);
    this.listen();
    if (!this.x || !this.y) {
      this.box.replaceChildren(el('p', { class: 'small', text: 'No point has figures yet.' }));
      return;
    }
    onWidth(this.box, (width) => this.draw(width));
    this.say();
  }

  /** Whether a column stands on the horizontal axis by its few values in order, being no numbers. */
  isOfWords(column) {
    return column.parameter && !column.numeric && column.values().length <= MOST_COLOURS;
  }

  choices(numeric, across) {
    const figures = numeric.filter((column) => !column.parameter);
    const box = el('div', { class: 'choices' });
    const choice = (id, label, options, chosen, choose) => {
      const select = el('select', { id });
      options.forEach((column, index) =>
        select.append(
          el('option', { value: index, text: column === null ? 'one colour' : shortened(column.title, 26) }),
        ),
      );
      select.value = String(Math.max(0, options.indexOf(chosen)));
      select.addEventListener('change', () => {
        choose(options[Number(select.value)]);
        this.draw();
      });
      box.append(el('label', { for: id }, `${label} `, select));
    };
    choice('plot-y', 'Vertical axis', figures, this.y, (column) => (this.y = column));
    choice('plot-x', 'Horizontal axis', across, this.x, (column) => (this.x = column));
    if (this.colours.length)
      choice('plot-colour', 'Colour', [null, ...this.colours], this.colour, (column) => (this.colour = column));
    return box;
  }

  /** Only these points are drawn. */
  keep(kept) {
    this.kept = kept;
    if (this.focus !== null && !kept.has(this.focus)) this.look(null);
    this.draw();
  }

  draw(width = this.width) {
    if (!width || !this.x || !this.y) return;
    this.width = width;
    const height = Math.min(PLOT_HEIGHT, Math.max(260, Math.round(width * 0.62)));
    const all = [...this.kept].map((index) => this.placed(index));
    const drawn = all.filter((each) => each.x !== null && each.y !== null);
    const joined = this.joined(drawn);
    const crowded = drawn.length > MOST_DETAILED;
    if (crowded) for (const each of drawn) if (!joined.includes(each)) [each.interval, each.bound] = [null, null];
    const bottom = all.filter((each) => each.x !== null && each.y === null);
    const feasible = drawn.filter((each) => outcomeOf(each.point) === 'feasible');
    const central = feasible.length > 1 ? feasible : drawn; // points that miss their tasks do not stretch the axes
    const [x, xTicks] = this.scale(
      (this.x.parameter ? [...drawn, ...bottom] : central).map((each) => each.x),
      [chartFrame.left + 10, width - chartFrame.right - 10],
      Math.max(3, Math.floor(width / 90)),
    );
    const ys = central.flatMap((each) => [
      each.y,
      ...(each.interval ?? []),
      ...(each.bound === null ? [] : [each.bound]),
    ]);
    const [y, yTicks] = this.scale(ys, [height - chartFrame.bottom - 12, chartFrame.top + 6], 5);
    const label = `Plot of ${count(drawn.length, 'point')}: ${visible(this.y.title)} by ${visible(this.x.title)}.`;
    const help = 'Arrow keys go from point to point, Enter goes to the row of a point.';
    this.box.setAttribute('aria-label', `${label} ${help}`);
    const picture = plotOf(width, height, { 'aria-hidden': 'true' });
    const words = this.isOfWords(this.x) && ((tick) => shortened(this.x.values()[Math.round(tick)] ?? '', 18));
    axes(picture, { width, height, x, y, xTicks, yTicks, xLabel: shortened(this.x.title, 60), xWords: words || null });
    picture.append(svg('text', { class: 'axis-name', x: chartFrame.left, y: 2, text: shortened(this.y.title, 60) }));
    if (joined.length > 1)
      picture.append(svg('path', { class: 'joined', d: pathOf(joined.map((each) => [x(each.x), y(each.y)])) }));
    this.positions = [...drawn, ...bottom].map((each) => ({
      ...each,
      left: x(each.x),
      beyond: !x.inside(each.x) || (each.y !== null && !y.inside(each.y)),
      top: each.y === null ? height - chartFrame.bottom - 5 : y(each.y),
    }));
    for (const each of this.positions) this.mark(picture, each, y, crowded ? 3 : 5.2);
    this.ring = svg('circle', { class: 'focus-ring', r: 9, visibility: 'hidden' });
    picture.append(this.ring);
    this.box.replaceChildren(picture);
    this.explain({ all, drawn, bottom, joined });
    this.placeRing();
  }

  placed(index) {
    const point = this.data.points[index];
    const bounded = !this.y.parameter && [this.data.objective.of, 'objective'].includes(this.y.key);
    const number = (value) => (typeof value === 'number' ? value : null);
    return {
      index,
      point,
      x: this.isOfWords(this.x) ? placeOf(this.x, point) : number(this.x.value(point)),
      y: number(this.y.value(point)),
      interval: this.y.interval(point),
      error: this.y.error(point),
      bound: bounded ? number(point.upper_bound ?? point.lower_bound) : null,
    };
  }

  /** From values to pixels; what is beyond the axis stands at its rim. */
  scale(values, [from, to], most) {
    const same = sameNumbers(values);
    const [low, high] = same ? [values[0] - 0.5, values[0] + 0.5] : extent(values);
    const share = (value) => Math.min(1.02, Math.max(-0.02, (value - low) / (high - low || 1)));
    const inside = (value) => value >= low && value <= high;
    const ticks = niceTicks(low, high, most);
    const whole = !same && values.every(Number.isInteger);
    const scaled = Object.assign((value) => from + share(value) * (to - from), { inside });
    return [scaled, whole ? wholeTicks(ticks) : ticks];
  }

  /**
   * Up is better (down for a task that reveals). To the right too where that is the return: the points that no other
   * exceeds are joined. Of a parameter the best point at every value is.
   */
  joined(drawn) {
    const sign = this.isLower() ? -1 : 1;
    if (!MEASURES.includes(this.y.key) || this.y.parameter || this.x === this.y) return [];
    const done = drawn
      .filter((each) => outcomeOf(each.point) === 'feasible')
      .sort((one, other) => other.x - one.x || sign * (other.y - one.y));
    if (!this.isPareto()) {
      const firsts = done.filter((each, at) => at === 0 || each.x !== done[at - 1].x);
      return this.x.parameter ? firsts.reverse() : [];
    }
    if (!done.length) return [];
    const close = sameNumbers(done.map((each) => each.x)) ? Infinity : CLOSE * (done[0].x - done.at(-1).x);
    const front = [];
    for (const each of done) {
      const last = front.at(-1);
      if (last && sign * each.y <= sign * last.y) continue;
      if (last && last.x - each.x <= close) front.pop();
      front.push(each);
    }
    return front.reverse();
  }

  /** Whether lower is better on the vertical axis. */
  isLower() {
    return minimises(this.data) && this.y.key !== 'return' && this.y.key !== 'value';
  }

  isPareto() {
    return !this.x.parameter && ['return', 'value'].includes(this.x.key);
  }

  mark(picture, each, y, radius) {
    const { left, top, point } = each;
    const own = this.colourOf(point);
    const style = {
      class: `point-mark outcome-${outcomeOf(point)}`,
      style: own && `--own: ${own}`,
      'data-index': each.index,
    };
    if (each.interval)
      picture.append(
        svg('line', { class: 'interval', x1: left, x2: left, y1: y(each.interval[0]), y2: y(each.interval[1]) }),
      );
    if (each.bound !== null) {
      picture.append(
        svg('line', { class: 'to-bound', x1: left, x2: left, y1: top, y2: y(each.bound) }),
        svg('line', { class: 'bound-mark', x1: left - 6, x2: left + 6, y1: y(each.bound), y2: y(each.bound) }),
      );
    }
    if (each.y === null) picture.append(svg('path', { ...style, d: `M${left - 4},${top - 4}l8,8m0,-8l-8,8` }));
    else if (outcomeOf(point) === 'feasible') picture.append(svg('circle', { ...style, cx: left, cy: top, r: radius }));
    else picture.append(svg('path', { ...style, d: `M${left},${top - 6}l6,6l-6,6l-6,-6z` }));
  }

  colourOf(point) {
    if (this.colour === null) return null;
    const value = this.colour.value(point);
    const values = this.colour.values();
    if (value === null) return 'var(--muted)';
    if (this.colour.numeric) return ramp(values.length > 1 ? (value - values[0]) / (values.at(-1) - values[0]) : 1);
    return `var(--tint-${values.indexOf(value) % MOST_COLOURS})`;
  }

  explain({ all, drawn, bottom, joined }) {
    const entry = (kind, text, own) =>
      el(
        'li',
        {},
        el('span', { class: `key-mark ${kind}`, style: own && `--own: ${own}`, 'aria-hidden': 'true' }),
        el('bdi', { text }),
      );
    const has = (outcome) => drawn.some((each) => outcomeOf(each.point) === outcome);
    const unbeaten = this.isLower() ? 'no point is lower and further right' : 'no point exceeds these in both';
    const best = this.isPareto() ? unbeaten : 'the best at every value';
    const beyond = this.positions.some((each) => each.beyond);
    const entries = [
      this.colour === null && has('feasible') && entry('dot-mark', 'meets its task'),
      has('infeasible') && entry('diamond-mark', `misses its task${beyond ? ' (at the rim: further out)' : ''}`),
      bottom.length > 0 && entry('cross-mark', 'without an answer'),
      joined.length > 1 && entry('line-mark', best),
      drawn.some((each) => each.interval && each.error === null) &&
        entry('interval-mark', 'interval, its proven end marked'),
      drawn.some((each) => each.error !== null) && entry('interval-mark', '± standard error'),
      drawn.some((each) => each.bound !== null) && entry('bound-key', `no policy ${minimises(this.data) ? 'gets below' : 'exceeds'} this (certified)`),
      ...this.colourEntries(entry),
    ];
    const hidden = all.length - drawn.length - bottom.length;
    if (hidden) entries.push(el('li', { class: 'muted', text: `${count(hidden, 'point')} without such figures` }));
    this.legend.replaceChildren(...entries.filter(Boolean));
  }

  colourEntries(entry) {
    if (this.colour === null) return [];
    const values = this.colour.values();
    const shown =
      values.length <= MOST_COLOURS
        ? values
        : this.colour.numeric
          ? [values[0], values.at(-1)]
          : values.slice(0, MOST_COLOURS);
    const title = shortened(this.colour.title, 30);
    const entries = shown.map((value) =>
      entry(
        'dot-mark',
        `${title} ${shortened(value, 24)}`,
        this.colour.numeric
          ? ramp((value - values[0]) / (values.at(-1) - values[0]))
          : `var(--tint-${values.indexOf(value) % MOST_COLOURS})`,
      ),
    );
    if (!this.colour.numeric && values.length > MOST_COLOURS)
      entries.push(el('li', { class: 'muted', text: `and ${values.length - MOST_COLOURS} more; colours repeat` }));
    return entries;
  }

  listen() {
    const near = (event) => this.nearest(event);
    this.box.addEventListener('pointermove', (event) => near(event) !== null && this.look(near(event)));
    this.box.addEventListener('click', (event) => {
      const index = near(event);
      if (index !== null) this.onGo(index);
    });
    this.box.addEventListener('keydown', (event) => this.key(event));
  }

  nearest(event) {
    const frame = this.box.getBoundingClientRect();
    const [left, top] = [event.clientX - frame.left, event.clientY - frame.top];
    let [best, least] = [null, NEAR];
    for (const each of this.positions ?? []) {
      const distance = Math.hypot(each.left - left, each.top - top);
      if (distance < least) [best, least] = [each.index, distance];
    }
    return best;
  }

  key(event) {
    if (event.key === 'Escape') return this.look(null);
    if (event.key === 'Enter' && this.focus !== null) {
      event.preventDefault();
      return this.onGo(this.focus);
    }
    const steps = {
      ArrowRight: ['left', 1],
      ArrowLeft: ['left', -1],
      ArrowDown: ['top', 1],
      ArrowUp: ['top', -1],
      Home: ['left', -Infinity],
      End: ['left', Infinity],
    };
    if (!(event.key in steps) || !this.positions?.length) return undefined;
    event.preventDefault();
    const [side, step] = steps[event.key];
    const other = side === 'left' ? 'top' : 'left';
    const order = [...this.positions].sort(
      (one, two) => one[side] - two[side] || one[other] - two[other] || one.index - two.index,
    );
    const at = order.findIndex((each) => each.index === this.focus);
    const next = at < 0 ? 0 : Math.min(order.length - 1, Math.max(0, at + step));
    return this.look(order[Number.isFinite(step) ? next : step > 0 ? order.length - 1 : 0].index);
  }

  /** Show a point here, and tell of it. */
  look(index) {
    if (index === this.focus) return;
    this.show(index);
    if (index !== null) this.onSelect(index);
  }

  show(index) {
    this.focus = index;
    this.placeRing();
    this.say();
  }

  placeRing() {
    const at = (this.positions ?? []).find((each) => each.index === this.focus);
    this.ring?.setAttribute('visibility', at ? 'visible' : 'hidden');
    if (at) build(this.ring, { cx: at.left, cy: at.top }, []);
  }

  say() {
    if (this.focus === null) {
      const hint = 'Point at a mark, or focus the plot and use the arrow keys.';
      return this.card.replaceChildren(
        el('p', { class: 'small', text: `${hint} A click, or Enter, goes to the row of the point.` }),
      );
    }
    const point = this.data.points[this.focus];
    const facts = this.columns.slice(1).filter((column) => column.words(point) !== '');
    const link = reportLink(point, 'Open its report');
    const error = point.error ? [el('p', { class: 'small', text: visible(point.error) })] : [];
    return this.card.replaceChildren(
      el('p', { class: 'inspected' }, 'Point ', named(point.point, 60), link && ' · ', link),
      el('dl', { class: 'point-facts' }, ...facts.map((column) => this.fact(column, point))),
      ...error,
    );
  }

  fact(column, point) {
    return el('div', {}, el('dt', {}, named(column.title, 40)), el('dd', {}, named(column.words(point), 80)));
  }
}

/** The position of a point's value among those of a column, or null where it says nothing. */
function placeOf(column, point) {
  const value = column.value(point);
  return value === null ? null : column.values().indexOf(value);
}

/** Whether numbers differ by rounding alone. */
function sameNumbers(values) {
  if (!values.length) return false;
  const [low, high] = values.reduce(
    ([least, most], value) => [Math.min(least, value), Math.max(most, value)],
    [Infinity, -Infinity],
  );
  return high - low <= 1e-7 * Math.max(1, Math.abs(low), Math.abs(high));
}

/** From orange to violet, also told apart by lightness. */
const ramp = (share) => `color-mix(in oklab, var(--heat) ${Math.round(100 * share)}%, var(--tint-1))`;
