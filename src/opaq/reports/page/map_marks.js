// What pictures of a model have in common: which states are marked, tinted and named, and what is said of a state.

const TINTS = 8; // colours of sensor ranges; beyond, they come again
const MOST_RANGES = 32;
const MOST_KEYED = 10; // ranges listed in the key
const SHAPES = ['star', 'triangle', 'square', 'disc', 'cross'];

/** The data of the model and the policy, ready to be looked up by state. */
class Plan {
  constructor(data) {
    const { model, policy } = data;
    this.model = model;
    this.size = model.states.length;
    this.index = new Map(model.states.map((name, state) => [name, state]));
    this.starts = new Map(arrayOf(model.start).map(([state, share]) => [state, share]));
    this.traps = new Set(arrayOf(model.traps));
    this.labels = Object.entries(model.labels ?? {}).map(([name, states]) => ({
      name,
      states,
      secret: name === model.secret_label,
    }));
    let shape = 0;
    for (const label of this.labels) label.shape = label.secret ? 'diamond' : SHAPES[shape++ % SHAPES.length];
    this.areas = Math.max(model.grid?.width ?? 0, model.grid?.height ?? 0) > 40; // labels fill cells that are too small for signs
    this.seen = new Map();
    const coverage = arrayOf(model.coverage);
    for (const { observation, states } of coverage) {
      for (const [state, share] of states) {
        if (!this.seen.has(state)) this.seen.set(state, []);
        this.seen.get(state).push([observation, share]);
      }
    }
    this.ranges = rangesOf(coverage, this.size);
    this.untinted = coverage.length - this.ranges.length;
    this.actions = model.actions;
    this.average = sharesOf(policy?.average);
    this.byTime = policy?.by_time ? policy.by_time.map(sharesOf) : null;
    this.conditions = arrayOf(policy?.conditions_on);
    this.secretKind = model.secret_kind ? `${model.secret_kind} ` : ''; // said before a secret value
  }

  /** P(action | state), at a time where the policy changes with time. */
  shares(time = null) {
    if (this.byTime === null || time === null) return this.average;
    return this.byTime[Math.min(time, this.byTime.length - 1)];
  }

  /** P(to | from) of an edge of the graph under the policy, at a time where the policy changes with time. */
  edgeShare([source, , average, actions, chances], time = null) {
    if (this.byTime === null || time === null || !Array.isArray(chances)) return average;
    const shares = new Map(this.shares(time).get(source));
    const sum = actions.reduce((total, action, i) => total + (shares.get(action) ?? 0) * chances[i], 0);
    return Math.min(1, sum);
  }

  labelsOf(state) {
    return this.labels.filter((label) => label.states.includes(state));
  }

  policyWords(state, time = null) {
    const row = this.shares(time).get(state);
    if (!row) return null;
    const ranked = [...row].sort((one, other) => other[1] - one[1]);
    const words = ranked.slice(0, 5).map(([action, share]) => `${shortened(this.actions[action], 24)} ${neat(share)}`);
    return words.join(' · ') + (ranked.length > 5 ? ' · …' : '');
  }

  /** Lines of [what, text] that say all about a state. */
  describe(state, time = null) {
    const lines = [];
    const notes = [];
    if (this.starts.has(state)) notes.push(`start (${neat(this.starts.get(state))})`);
    if (this.traps.has(state)) notes.push('trap: no action leaves it');
    for (const label of this.labelsOf(state))
      notes.push(label.secret ? `secret (${shortened(label.name, 30)})` : shortened(label.name, 30));
    if (notes.length) lines.push(['marked', notes.join(', ')]);
    const seen = this.seen.get(state);
    if (seen)
      lines.push([
        'seen as',
        seen
          .slice(0, 5)
          .map(([name, share]) => `${shortened(name, 24)} ${neat(share)}`)
          .join(' · '),
      ]);
    const policy = this.policyWords(state, time);
    lines.push(['policy', policy ?? (time === null ? 'never gets here' : `never here at time ${time}`)]);
    const edges = arrayOf(this.model.graph?.edges)
      .filter(([source]) => source === state)
      .map((edge) => [edge[1], this.edgeShare(edge, time)])
      .filter(([, share]) => share > 0);
    if (edges.length) {
      const ranked = edges.sort((one, other) => other[1] - one[1]).slice(0, 6);
      lines.push([
        'leads to',
        ranked.map(([target, share]) => `${shortened(this.model.states[target], 24)} ${neat(share)}`).join(' · '),
      ]);
    }
    return lines;
  }
}

/** Sensor ranges with the states they tint: each state by the observation that is likeliest there. */
function rangesOf(coverage, size) {
  const narrow = coverage.filter(({ states }) => states.length <= Math.max(1, size / 2));
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
  if (plan.starts.size) {
    const each = new Set([...plan.starts.values()].map(neat));
    const chance = each.size === 1 && plan.starts.size > 1 ? `, ${[...each][0]} each` : '';
    entries.push(
      entry(swatch(grid ? 'start' : 'start round'), plan.starts.size === 1 ? 'start' : `possible start${chance}`),
    );
  }
  for (const label of plan.labels) {
    const words = label.secret && label.name !== 'secret' ? ' (secret)' : '';
    const kind = label.secret ? 'secret' : 'label';
    entries.push(
      entry(plan.areas ? swatch(`area ${kind}`) : shapeIcon(label.shape, kind), named(label.name, 30), words),
    );
  }
  if (plan.traps.size) entries.push(entry(swatch(grid ? 'trap' : 'sink'), 'trap: no action leaves it'));
  if (grid && grid.cells.length < grid.width * grid.height) entries.push(entry(swatch('wall'), 'wall'));
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
  } else if (plan.untinted > MOST_KEYED)
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
