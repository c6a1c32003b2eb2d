// Grids: cells, walls, sensor ranges, arrows of the policy, heat of a belief. Static marks are one path per kind, so
// that a board of 10,000 cells has no more elements than one of 36. A cell may hold several states: the first of them
// stands for it. On large boards arrows in every cell would be dust: there the policy is a flow.

const SHADES = 8; // of how often cells are visited: one path each
const FLOW_APART = 24; // pixels between the arrows of a flow
const ARROW_LEVELS = 4; // arrows are grouped by how likely they are: one path each

class GridMap {
  constructor(host, plan, { role, most = 620 }) {
    this.plan = plan;
    this.grid = plan.model.grid;
    this.role = role;
    this.most = most;
    this.state = { time: null, agent: null, trail: [], heat: null, focus: null };
    this.box = el('div', { class: `map map-${role}` });
    host.append(this.box);
    onWidth(this.box, (width) => this.draw(width));
  }

  draw(width) {
    const { grid } = this;
    this.axis = grid.width > 60 ? 0 : 18;
    this.cell = Math.max(1, Math.min(92, (Math.min(width, this.most) - this.axis - 2) / grid.width));
    const wide = this.axis + grid.width * this.cell + 2;
    const tall = this.axis + grid.height * this.cell + 2;
    this.points = grid.cells.map(([column, row]) => [
      this.axis + 1 + (column + 0.5) * this.cell,
      this.axis + 1 + (row + 0.5) * this.cell,
    ]);
    const layers = ['floor', 'tints', 'flow', 'heat', 'marks', 'arrows', 'trail', 'agent', 'words', 'focus'];
    Object.assign(this, boardOf(wide, tall, layers));
    this.floor(wide, tall);
    this.marks();
    this.drawn = false;
    this.box.replaceChildren(this.picture);
    this.show({});
  }

  corner(state) {
    const [x, y] = this.points[state];
    return [x - this.cell / 2, y - this.cell / 2];
  }

  squares(states, inset = 0) {
    const side = (this.cell - 2 * inset).toFixed(2);
    const once = new Set(states.map((state) => this.plan.cells.first[state]));
    return [...once]
      .map((state) => {
        const [x, y] = this.corner(state);
        return `M${(x + inset).toFixed(2)},${(y + inset).toFixed(2)}h${side}v${side}h-${side}Z`;
      })
      .join('');
  }

  floor(wide, tall) {
    const { grid, plan, layers } = this;
    const states = grid.cells.map((_, state) => state);
    const floor = layers.get('floor');
    floor.append(
      svg('rect', {
        class: 'wall',
        x: this.axis + 1,
        y: this.axis + 1,
        width: wide - this.axis - 2,
        height: tall - this.axis - 2,
      }),
      svg('path', { class: this.cell >= 8 ? 'cell ruled' : 'cell', d: this.squares(states) }),
    );
    floor.append(
      svg('rect', {
        class: 'rim',
        x: this.axis + 0.5,
        y: this.axis + 0.5,
        width: wide - this.axis - 1,
        height: tall - this.axis - 1,
      }),
    );
    if (this.axis) this.rulers(floor);
    if (this.role === 'belief') return;
    const tinted = new Set();
    for (const range of plan.ranges) {
      const levels = new Map();
      for (const [state, share] of range.states) {
        if (tinted.has(plan.cells.first[state])) continue;
        tinted.add(plan.cells.first[state]);
        const level = Math.round(share * 10) / 10;
        if (!levels.has(level)) levels.set(level, []);
        levels.get(level).push(state);
      }
      for (const [level, members] of levels) {
        layers
          .get('tints')
          .append(
            svg('path', {
              class: 'tint',
              'data-tint': range.tint,
              'fill-opacity': 0.14 + 0.3 * level,
              d: this.squares(members),
            }),
          );
      }
    }
  }

  rulers(floor) {
    const every = [1, 2, 5, 10, 20].find((step) => step * this.cell >= 22) ?? 50;
    for (let column = 0; column < this.grid.width; column += every) {
      floor.append(
        svg('text', {
          class: 'ruler',
          x: this.axis + 1 + (column + 0.5) * this.cell,
          y: 11,
          'text-anchor': 'middle',
          text: this.grid.columns?.[column] ?? column,
        }),
      );
    }
    for (let row = 0; row < this.grid.height; row += every) {
      floor.append(
        svg('text', {
          class: 'ruler',
          x: 9,
          y: this.axis + 5 + (row + 0.5) * this.cell,
          'text-anchor': 'middle',
          text: this.grid.rows?.[row] ?? row,
        }),
      );
    }
  }

  marks() {
    const { plan, cell } = this;
    const marks = this.layers.get('marks');
    const size = Math.min(6.5, cell * 0.085 + 1, (cell - 3) / (2.4 * this.mostLabels() + 0.5));
    const inset = Math.min(2.5, cell * 0.06);
    if (this.role !== 'belief')
      marks.append(
        svg('path', {
          class: 'start',
          d: this.squares([...plan.starts.keys()], inset),
          'stroke-width': Math.min(2.4, cell * 0.08 + 0.3),
        }),
      );
    const reach = cell * 0.2;
    this.held = new Set(plan.heldCells());
    const crosses = [...this.held].map((state) => {
      const [x, y] = this.points[state];
      return `M${x - reach},${y - reach}L${x + reach},${y + reach}M${x + reach},${y - reach}L${x - reach},${y + reach}`;
    });
    marks.append(svg('path', { class: 'trap', d: crosses.join(''), 'stroke-width': Math.min(3, cell * 0.07) }));
    const taken = new Map();
    for (const label of plan.labels.filter((each) => !each.common)) {
      if (plan.large) {
        marks.append(...this.area(label));
        continue;
      }
      const paths = [...new Set(label.states.map((state) => plan.cells.first[state]))].map((state) => {
        const slot = taken.get(state) ?? 0;
        taken.set(state, slot + 1);
        const [x, y] = this.corner(state);
        return shapePath(label.shape, x + size + 3 + slot * 2.4 * size, y + size + 3, size);
      });
      marks.append(
        svg('path', { class: `mark ${label.secret ? 'secret' : 'label'} ${label.shape}`, d: paths.join('') }),
      );
    }
    if (cell < 30 || this.role !== 'model') return;
    for (const range of plan.ranges) {
      if (Array.from(range.observation).length > 3) continue;
      for (const state of new Set(range.states.map(([each]) => plan.cells.first[each]))) {
        const [x, y] = this.corner(state);
        marks.append(
          svg('text', {
            class: 'sensor-name',
            x: x + cell - 4,
            y: y + (cell < 56 ? 11 : 14),
            style: `font-size: ${cell < 56 ? 9 : 11}px`,
            'text-anchor': 'end',
            text: visible(range.observation),
          }),
        );
      }
    }
  }

  /** The most labels that one cell shows. */
  mostLabels() {
    const { plan } = this;
    const counts = new Map();
    for (const label of plan.labels.filter((each) => !each.common))
      for (const state of new Set(label.states.map((each) => plan.cells.first[each])))
        counts.set(state, (counts.get(state) ?? 0) + 1);
    return Math.max(1, ...counts.values());
  }

  /** A label on a large board: its cells hatched, and an outline around them. */
  area(label) {
    const { plan, cell } = this;
    const states = [...new Set(label.states.map((state) => plan.cells.first[state]))];
    const inside = new Set(states.map((state) => this.grid.cells[state].join()));
    const kind = label.secret ? 'secret' : 'label';
    const [lines, rim] = [[], []];
    for (const state of states) {
      const [column, row] = this.grid.cells[state];
      const [x, y] = this.corner(state);
      lines.push(hatchPath(label.hatch, x, y, cell));
      if (!inside.has([column, row - 1].join())) rim.push(`M${x},${y}h${cell}`);
      if (!inside.has([column, row + 1].join())) rim.push(`M${x},${y + cell}h${cell}`);
      if (!inside.has([column - 1, row].join())) rim.push(`M${x},${y}v${cell}`);
      if (!inside.has([column + 1, row].join())) rim.push(`M${x + cell},${y}v${cell}`);
    }
    return [
      svg('path', { class: `area-lines ${kind}`, d: lines.join('') }),
      svg('path', { class: `area-rim ${kind}`, d: rim.join('') }),
    ];
  }

  /** What changes: {time, agent, trail, heat, focus}; what is not given stays. */
  show(change) {
    Object.assign(this.state, change);
    const { agent, trail, focus } = this.state;
    const heat = this.byCell(this.state.heat);
    if (this.role !== 'belief' && ('time' in change || !this.drawn)) this.policy();
    this.layers.get('heat').replaceChildren(
      ...heat
        .slice(0, 2500)
        .map(([state, share]) => this.hot(state, share)),
    );
    this.layers.get('words').replaceChildren(
      ...(this.cell >= 34
        ? heat
            .filter(([, share]) => share >= 0.005)
            .map(([state, share]) => this.heatWords(state, share))
        : []),
    );
    this.layers
      .get('trail')
      .replaceChildren(
        ...(trail.length > 1
          ? [svg('path', { class: 'trail', d: pathOf(trail.map((state) => this.points[state])) })]
          : []),
      );
    this.layers.get('agent').replaceChildren(...this.agentMarks(agent));
    this.layers
      .get('focus')
      .replaceChildren(...(focus === null ? [] : [svg('path', { class: 'focus', d: this.squares([focus], 1) })]));
  }

  /** A belief over states as one over cells, the likeliest first. */
  byCell(heat) {
    const sums = new Map();
    for (const [state, share] of arrayOf(heat)) {
      const own = this.plan.cells.first[state];
      sums.set(own, (sums.get(own) ?? 0) + share);
    }
    return [...sums].sort((one, other) => other[1] - one[1]);
  }

  hot(state, share) {
    const [x, y] = this.corner(state);
    return svg('rect', {
      class: 'heat',
      'data-state': state,
      'data-share': share,
      x,
      y,
      width: this.cell,
      height: this.cell,
      'fill-opacity': heatOf(share).toFixed(3),
    });
  }

  heatWords(state, share) {
    const [x, y] = this.corner(state);
    const text = percent(share, share < 0.0995 && this.cell >= 48 ? 1 : 0);
    return svg('text', {
      class: heatOf(share) > 0.5 ? 'heat-words hot' : 'heat-words',
      x: x + this.cell / 2,
      y: y + this.cell - 6,
      'text-anchor': 'middle',
      text,
    });
  }

  agentMarks(agent) {
    if (agent === null || agent === undefined) return [];
    const [cx, cy] = this.points[agent];
    if (this.role === 'belief') return [svg('circle', { class: 'truth', cx, cy, r: Math.max(4, this.cell * 0.24) })];
    return [svg('circle', { class: 'agent', cx, cy, r: Math.max(4, this.cell * 0.17) })];
  }

  /** The policy at the time shown: arrows in the cells, or on large boards where it goes. */
  policy() {
    this.drawn = true;
    const levels = Array.from({ length: ARROW_LEVELS }, () => []);
    if (this.plan.large) this.flow(levels);
    else this.arrows(levels);
    this.layers
      .get('arrows')
      .replaceChildren(
        ...levels.map((paths, level) =>
          svg('path', {
            class: `arrow level-${level}`,
            d: paths.join(''),
            'stroke-width': this.plan.large
              ? 1 + 0.3 * level
              : Math.min(2.2, this.cell * (0.022 + 0.008 * level) + 0.25),
          }),
        ),
      );
  }

  arrows(levels) {
    for (const state of this.plan.cells.members.keys()) {
      if (this.held.has(state)) continue;
      let others = 0; // all that have no direction are one dot
      const draw = (aim, share) => {
        const level = levels[Math.min(ARROW_LEVELS - 1, Math.floor(share * ARROW_LEVELS))];
        if (share >= 0.02) level.push(this.arrow(state, aim, share));
      };
      for (const [action, share] of this.plan.cellShares(state, this.state.time) ?? []) {
        if (this.plan.aim(action) === null) others += share;
        else draw(this.plan.aim(action), share);
      }
      draw(null, others);
    }
  }

  /** How often cells are visited as shade, and the mean direction of the moves in every block of cells as one arrow. */
  flow(levels) {
    const { plan, grid, cell } = this;
    const visits = new Map(this.byCell([...plan.visits(this.state.time)]));
    const most = Math.max(...visits.values(), 1e-12);
    const shades = Array.from({ length: SHADES }, () => []);
    const block = Math.max(1, Math.ceil(FLOW_APART / cell));
    const blocks = new Map();
    for (const [state, weight] of visits) {
      shades[Math.min(SHADES - 1, Math.floor(Math.sqrt(weight / most) * SHADES))].push(state);
      const [column, row] = grid.cells[state];
      const place = Math.floor(row / block) * grid.width + Math.floor(column / block);
      const sums = blocks.get(place) ?? [0, 0, 0, 0, 0];
      const [x, y] = this.points[state];
      const mean = [0, 0];
      for (const [action, share] of (this.held.has(state) ? null : plan.cellShares(state, this.state.time)) ?? []) {
        const aim = plan.aim(action) ?? [0, 0];
        mean[0] += share * aim[0];
        mean[1] += share * aim[1];
      }
      [1, x, y, ...mean].forEach((value, i) => (sums[i] += weight * value));
      blocks.set(place, sums);
    }
    this.layers.get('flow').replaceChildren(
      ...shades.flatMap((states, shade) =>
        states.length
          ? [svg('path', { class: 'visited', 'fill-opacity': (0.62 * (shade + 0.5)) / SHADES, d: this.squares(states) })]
          : [],
      ),
    );
    const heaviest = Math.max(...[...blocks.values()].map(([weight]) => weight), 1e-12);
    for (const [weight, x, y, dx, dy] of blocks.values()) {
      const share = Math.sqrt(weight / heaviest);
      if (share < 0.04) continue; // seldom: the shade says so
      const level = levels[Math.min(ARROW_LEVELS - 1, Math.floor(share * ARROW_LEVELS))];
      level.push(flowArrow(x / weight, y / weight, dx / weight, dy / weight, block * cell));
    }
  }

  arrow(state, aim, share) {
    const [x, y] = this.points[state];
    if (aim === null) {
      const r = this.cell * (0.03 + 0.05 * share);
      return `M${(x - r).toFixed(2)},${y.toFixed(2)}a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0Z`;
    }
    const scale = this.cell;
    const [from, to, wing] = [0.09 * scale, scale * (0.2 + 0.19 * share), this.cell * (0.05 + 0.035 * share)];
    const [dx, dy] = aim;
    const [tx, ty] = [x + dx * to, y + dy * to];
    const [bx, by] = [tx - dx * wing, ty - dy * wing];
    const line = `M${(x + dx * from).toFixed(2)},${(y + dy * from).toFixed(2)}L${tx.toFixed(2)},${ty.toFixed(2)}`;
    if (this.cell < 9) return line;
    return `${line}M${(bx - dy * wing).toFixed(2)},${(by + dx * wing).toFixed(2)}L${tx.toFixed(2)},${ty.toFixed(2)}L${(bx + dy * wing).toFixed(2)},${(by - dx * wing).toFixed(2)}`;
  }

  stateAt(event) {
    const frame = this.picture.getBoundingClientRect();
    const column = Math.floor((event.clientX - frame.left - this.axis - 1) / this.cell);
    const row = Math.floor((event.clientY - frame.top - this.axis - 1) / this.cell);
    if (column < 0 || column >= this.grid.width || row < 0) return null;
    return this.plan.cells.byPlace.get(column + row * this.grid.width) ?? null;
  }
}

/** A line through a cell, by the hatch of its label: up, down, across or upright. */
function hatchPath(hatch, x, y, cell) {
  const half = cell / 2;
  if (hatch === 0) return `M${x},${y + cell}l${cell},${-cell}`;
  if (hatch === 1) return `M${x},${y}l${cell},${cell}`;
  return hatch === 2 ? `M${x},${y + half}h${cell}` : `M${x + half},${y}v${cell}`;
}

/** An arrow of a flow around (x, y): the longer, the more the moves agree; a dot where they do not. */
function flowArrow(x, y, dx, dy, room) {
  const length = Math.hypot(dx, dy);
  const at = (px, py) => `${px.toFixed(1)},${py.toFixed(1)}`;
  if (length < 0.12) return `M${at(x - 1, y)}a1,1 0 1 0 2,0a1,1 0 1 0 -2,0Z`;
  const reach = room * 0.42 * (0.35 + 0.65 * length);
  const [ux, uy] = [dx / length, dy / length];
  const wing = Math.min(5, 0.55 * reach);
  const [tx, ty] = [x + ux * reach, y + uy * reach];
  const [bx, by] = [tx - ux * wing, ty - uy * wing];
  const head = `M${at(bx - uy * wing * 0.7, by + ux * wing * 0.7)}L${at(tx, ty)}L${at(bx + uy * wing * 0.7, by - ux * wing * 0.7)}`;
  return `M${at(x - ux * reach, y - uy * reach)}L${at(tx, ty)}${head}`;
}
