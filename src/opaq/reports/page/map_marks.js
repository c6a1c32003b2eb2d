// What pictures of a model have in common: which states are marked, tinted and named, and what is said of a state.

const TINTS = 8; // colours of sensor ranges; beyond, they come again
const MOST_RANGES = 32;
const LARGE = 40; // cells in a row or column of a grid from which on flow and areas take the place of signs
const MOST_KEYED = 10; // ranges listed in the key
const HATCHES = 4; // directions of the lines that fill areas; beyond, they come again
const SHAPES = ['star', 'triangle', 'square', 'disc', 'cross'];

/** The data of the model and the policy, ready to be looked up by state. */
class Plan {
  constructor(data) {
    const { model, policy } = data;
    this.model = model;
    this.size = model.states.length;
    this.index = new Map(model.states.map((name, state) => [name, state]));
    this.names = arrayOf(model.shown_states).length ? model.shown_states : model.states; // as they are shown
    this.starts = new Map(arrayOf(model.start).map(([state, share]) => [state, share]));
    this.traps = new Set(arrayOf(model.traps));
    this.cells = cellsOf(model);
    this.labels = Object.entries(model.labels ?? {}).map(([name, states]) => ({
      name,
      states,
      secret: name === model.secret_label,
    })).filter(({ name, states }) => states.length > 0 && !this.marksStarts(name, states));
    for (const label of this.labels) label.common = !label.secret && this.isCommon(label.states);
    let shape = 0;
    for (const label of this.labels.filter((each) => !each.common)) {
      label.hatch = shape % HATCHES;
      label.shape = label.secret ? 'diamond' : SHAPES[shape++ % SHAPES.length];
    }
    this.large = Math.max(model.grid?.width ?? 0, model.grid?.height ?? 0) >= LARGE; // too small for signs and arrows
    this.seen = new Map();
    const coverage = arrayOf(model.coverage);
    for (const { observation, states } of coverage) {
      for (const [state, share] of states) {
        if (!this.seen.has(state)) this.seen.set(state, []);
        this.seen.get(state).push([observation, share]);
      }
    }
    this.ranges = this.unmixed(rangesOf(coverage, this.size, model.coverage_stated));
    this.untinted = coverage.length - this.ranges.length;
    this.actions = model.actions;
    this.average = sharesOf(policy?.average);
    this.byTime = policy?.by_time ? policy.by_time.map(sharesOf) : null;
    this.occupation = new Map(arrayOf(policy?.occupation));
    this.occupationByTime = policy?.occupation_by_time?.map((rows) => new Map(rows)) ?? null;
    this.conditions = arrayOf(policy?.conditions_on);
    this.secretKind = model.secret_kind ? `${model.secret_kind} ` : ''; // said before a secret value
  }

  /** Whether most cells of a grid carry a label: signs in all of them would hide the others. */
  isCommon(states) {
    if (this.cells === null || this.cells.members.size < 9) return false;
    const marked = new Set(states.map((state) => this.cells.first[state]));
    return marked.size > this.cells.members.size / 2;
  }

  /** Whether a label says no more than the frames of the starts do. */
  marksStarts(name, states) {
    return name === 'start' && states.length === this.starts.size && states.every((state) => this.starts.has(state));
  }

  /** Ranges without the cells whose states are in different ones: no colour would be true of them. */
  unmixed(ranges) {
    if (this.cells === null) return ranges;
    const own = new Map(ranges.flatMap((range) => range.states.map(([state]) => [state, range])));
    const whole = ([state]) => this.together(state).every((each) => own.get(each) === own.get(state));
    const kept = ranges.map((range) => ({ ...range, states: range.states.filter(whole) }));
    return kept.filter((range) => range.states.length > 0);
  }

  /** P(action | state), at a time where the policy changes with time. */
  shares(time = null) {
    if (this.byTime === null || time === null) return this.average;
    return this.byTime[Math.min(time, this.byTime.length - 1)];
  }

  /** How often a state is visited, at a time where the policy changes with time: state -> expected visits. */
  visits(time = null) {
    if (this.occupationByTime === null || time === null) return this.occupation;
    return this.occupationByTime[Math.min(time, this.occupationByTime.length - 1)];
  }

  /** The states in the same cell of a grid as this one, itself among them. */
  together(state) {
    return this.cells?.members.get(this.cells.first[state]) ?? [state];
  }

  /** The cells of a grid that no action leaves, whichever of its states is meant. */
  heldCells() {
    const held = (members) => members.every((state) => this.traps.has(state));
    return [...this.cells.members].filter(([, members]) => held(members)).map(([state]) => state);
  }

  /** P(action | cell of a grid), its states weighted by their visits: [[action, probability], ...]. */
  cellShares(state, time = null) {
    const [shares, visits, members] = [this.shares(time), this.visits(time), this.together(state)];
    if (members.length === 1) return shares.get(state) ?? null;
    const sums = new Map();
    let total = 0;
    for (const each of members) {
      const weight = visits.get(each) ?? 0;
      if (!weight || !shares.has(each)) continue;
      total += weight;
      for (const [action, share] of shares.get(each)) sums.set(action, (sums.get(action) ?? 0) + weight * share);
    }
    return total > 0 ? [...sums].map(([action, sum]) => [action, sum / total]) : null;
  }

  /** Where an action leads on a grid, [right, down] of length 1; null where it has no direction. */
  aim(action) {
    const aim = this.model.grid?.directions?.[action];
    return aim && (aim[0] || aim[1]) ? aim : null;
  }

  /** What a state is called; a cell that several states share, by its place. */
  title(state) {
    const { grid } = this.model;
    if (this.together(state).length === 1) return this.names[state];
    const [column, row] = grid.cells[state];
    return `(${grid.columns?.[column] ?? column},${grid.rows?.[row] ?? row})`;
  }

  /** P(to | from) of an edge of the graph under the policy, at a time where the policy changes with time. */
  edgeShare([source, , average, actions, chances], time = null) {
    if (this.byTime === null || time === null || !Array.isArray(chances)) return average;
    const shares = new Map(this.shares(time).get(source));
    const sum = actions.reduce((total, action, i) => total + (shares.get(action) ?? 0) * chances[i], 0);
    return Math.min(1, sum);
  }

  policyWords(state, time = null, row = this.shares(time).get(state)) {
    if (!row) return null;
    const ranked = [...row].sort((one, other) => other[1] - one[1]);
    const words = ranked.slice(0, 5).map(([action, share]) => `${shortened(this.actions[action], 24)} ${neat(share)}`);
    return words.join(' · ') + (ranked.length > 5 ? ` · and ${ranked.length - 5} more` : '');
  }

  /** Lines of [what, text] that say all about a state. */
  describe(state, time = null) {
    const lines = [];
    const notes = [];
    const members = this.together(state);
    const some = (has) => (members.length > 1 && !members.every(has) ? ' (some of its states)' : '');
    if (members.length > 1) lines.push(['states', `${members.length}, ${shortened(this.names[members[0]], 60)}, …`]);
    const chance = members.reduce((sum, each) => sum + (this.starts.get(each) ?? 0), 0);
    if (chance > 0) notes.push(`start (${neat(chance)})`);
    if (members.some((each) => this.traps.has(each)))
      notes.push(`trap: no action leaves it${some((each) => this.traps.has(each))}`);
    for (const label of this.labels) {
      const held = new Set(members.filter((each) => label.states.includes(each)));
      if (held.size === 0) continue;
      const name = label.secret ? `secret (${shortened(label.name, 30)})` : shortened(label.name, 30);
      notes.push(name + some((each) => held.has(each)));
    }
    if (notes.length) lines.push(['marked', notes.join(', ')]);
    const ways = members.flatMap((each) => this.seen.get(each) ?? []);
    const names = new Set(ways.map(([name]) => name));
    if (members.length > 1 && names.size) lines.push(['seen as', `one of ${count(names.size, 'observation')}`]);
    else if (ways.length)
      lines.push([
        'seen as',
        ways
          .slice(0, 5)
          .map(([name, share]) => `${shortened(name, 24)} ${neat(share)}`)
          .join(' · ') + (ways.length > 5 ? ` · and ${ways.length - 5} more` : ''),
      ]);
    const policy = this.policyWords(state, time, this.cellShares(state, time));
    lines.push(['policy', policy ?? (time === null ? 'never gets here' : `never here at time ${time}`)]);
    const visits = members.reduce((sum, each) => sum + (this.visits(time).get(each) ?? 0), 0);
    const timed = time !== null && this.occupationByTime !== null;
    if (visits > 0)
      lines.push(['visits', timed ? `with probability ${neat(visits)}` : `${number(visits)} in a run, on average`]);
    const edges = arrayOf(this.model.graph?.edges)
      .filter(([source]) => source === state)
      .map((edge) => [edge[1], this.edgeShare(edge, time)])
      .filter(([, share]) => share > 0);
    if (edges.length) {
      const ranked = edges.sort((one, other) => other[1] - one[1]).slice(0, 6);
      lines.push([
        'leads to',
        ranked.map(([target, share]) => `${shortened(this.names[target], 24)} ${neat(share)}`).join(' · '),
      ]);
    }
    return lines;
  }
}

/** The cells of a grid: the first state of each stands for it. */
function cellsOf({ grid }) {
  if (!grid) return null;
  const members = new Map();
  const byPlace = new Map();
  const first = grid.cells.map(([column, row], state) => {
    const place = row * grid.width + column;
    if (!byPlace.has(place)) byPlace.set(place, state);
    const own = byPlace.get(place);
    members.set(own, [...(members.get(own) ?? []), state]);
    return own;
  });
  return { first, members, byPlace };
}

/** Sensor ranges with the states they tint: each state by the observation that is likeliest there. */
function rangesOf(coverage, size, stated) {
  const narrow = coverage.filter(({ states }) => stated || states.length <= Math.max(1, size / 2));
  if (narrow.length > MOST_RANGES) return [];
  narrow.sort((one, other) => one.states.length - other.states.length);
  const best = new Map();
  for (const range of narrow) {
    for (const [state, share] of range.states)
      if (!(best.get(state)?.share >= share)) best.set(state, { range, share });
  }
  const tinted = coverage.filter((range) => range.states.some(([state]) => best.get(state)?.range === range));
  return tinted.map((range, index) => ({
    observation: range.observation,
    tint: index % TINTS,
    states: range.states.filter(([state]) => best.get(state).range === range),
  }));
}

function sharesOf(rows) {
  return new Map(arrayOf(rows));
}

/** How dark a probability is drawn: small ones are still seen, and the scale is the same at all times. */
const heatOf = (share) => Math.min(1, share ** 0.45);

/** The outline of a mark around (x, y) as a path. */
function shapePath(shape, x, y, r) {
  const corners = (angles, radii) =>
    `${pathOf(
      angles.map((angle, i) => {
        const size = radii[i % radii.length] * r;
        return [x + size * Math.sin(angle), y - size * Math.cos(angle)];
      }),
    )}Z`;
  const turns = (parts) => Array.from({ length: parts }, (_, i) => (2 * Math.PI * i) / parts);
  if (shape === 'diamond') return corners(turns(4), [1.1]);
  if (shape === 'star') return corners(turns(10), [1.15, 0.5]);
  if (shape === 'triangle') return corners(turns(3), [1.1]);
  if (shape === 'square')
    return corners(
      turns(4).map((angle) => angle + Math.PI / 4),
      [1.1],
    );
  if (shape === 'cross') return `M${x - r},${y}H${x + r}M${x},${y - r}V${y + r}`;
  return `M${x - r},${y}a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0Z`;
}

const shapeIcon = (shape, kind) =>
  svg(
    'svg',
    { class: 'mark-icon', width: 16, height: 16, viewBox: '0 0 16 16', 'aria-hidden': 'true' },
    svg('path', { class: `mark ${kind} ${shape}`, d: shapePath(shape, 8, 8, 5.5) }),
  );

/** The key of a picture: only what occurs in it. */
function keyOf(plan, { grid }) {
  const entry = (icon, ...words) => el('li', {}, icon, el('span', {}, ...words));
  const entries = [];
  const starts = new Map(); // of cells, where several states share one
  for (const [state, share] of plan.starts) {
    const own = plan.cells?.first[state] ?? state;
    starts.set(own, (starts.get(own) ?? 0) + share);
  }
  if (starts.size) {
    const each = new Set([...starts.values()].map(neat));
    const chance = each.size === 1 && starts.size > 1 ? `, ${[...each][0]} each` : '';
    entries.push(
      entry(swatch(grid ? 'start' : 'start round'), starts.size === 1 ? 'start' : `possible start${chance}`),
    );
  }
  for (const label of plan.labels) {
    if (label.common) continue;
    const words = label.secret && label.name !== 'secret' ? ' (secret)' : '';
    const kind = label.secret ? 'secret' : 'label';
    entries.push(
      entry(plan.large ? swatch(`area ${kind} hatch-${label.hatch}`) : shapeIcon(label.shape, kind), named(label.name, 30), words),
    );
  }
  const held = grid ? plan.heldCells().length : plan.traps.size;
  if (held) entries.push(entry(swatch(grid ? 'trap' : 'sink'), 'trap: no action leaves it'));
  const common = plan.labels.filter((label) => label.common);
  if (common.length) {
    const words = common.flatMap(({ name }, i) => [i ? ', ' : '', named(name, 30)]);
    entries.push(el('li', { class: 'muted' }, el('span', {}, 'not marked, since most cells are: ', ...words)));
  }
  if (grid && plan.large) entries.push(entry(swatch('visited'), 'the darker, the more often visited'));
  if (grid && plan.cells.members.size < grid.width * grid.height) entries.push(entry(swatch('wall'), 'wall'));
  const sensors = plan.ranges.slice(0, MOST_KEYED).map((range) => {
    const shares = range.states.map(([, share]) => share);
    const chance = rangeWords(Math.min(...shares), Math.max(...shares), neat);
    return el(
      'li',
      {},
      swatch('tint', range.tint),
      el('span', { class: 'grows' }, named(range.observation, 56)),
      el('span', { class: 'muted', text: chance }),
    );
  });
  const groups = [entries.length ? el('ul', { class: 'key-list' }, ...entries) : null];
  const more = plan.ranges.length - sensors.length;
  if (more > 0) sensors.push(el('li', { class: 'muted', text: `and ${more} more` }));
  if (sensors.length) {
    const heading = el(
      'h3',
      {},
      plan.model.coverage_stated ? 'Sensor ranges' : 'What is seen',
      el('span', {
        class: 'muted',
        text: plan.model.coverage_stated ? ' and how likely' : ' and how likely, inferred from the emissions',
      }),
    );
    groups.push(heading, el('ul', { class: 'key-list' }, ...sensors));
  } else if (plan.untinted > (plan.cells?.members.size < plan.size ? 0 : MOST_KEYED))
    groups.push(
      el('p', {
        class: 'small',
        text: `${count(plan.untinted, 'observation')} tell states apart; point at a state to see which.`,
      }),
    );
  if (plan.model.coverage_left_out)
    groups.push(el('p', { class: 'small', text: 'What is seen where is too much for one page and left out.' }));
  return groups.filter((group) => group !== null);
}

/** The state nearest to another in the direction of an arrow key, in pixels. */
function stateTowards(points, from, key) {
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  const [x, y] = points[from];
  let best = from;
  let least = Infinity;
  points.forEach(([px, py], state) => {
    const along = (px - x) * dx + (py - y) * dy;
    const across = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
    if (state !== from && along > 0.5 && along + 2.5 * across < least) [best, least] = [state, along + 2.5 * across];
  });
  return best;
}

/** The picture of a model, empty, and its layers by name, the last one on top. */
function boardOf(wide, tall, names) {
  const layers = new Map(names.map((name) => [name, svg('g', { class: `layer-${name}` })]));
  const size = { width: wide, height: tall, viewBox: `0 0 ${wide} ${tall}` };
  return { layers, picture: svg('svg', { class: 'board', ...size }, ...layers.values()) };
}
