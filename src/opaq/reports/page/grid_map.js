// Grids: cells, walls, sensor ranges, arrows of the policy, heat of a belief. Static marks are one path per kind, so
// that a board of 10,000 cells has no more elements than one of 36.

const AIMS = new Map(
  [
    [0, -1, 'n north up u ↑ move_north move_up'],
    [0, 1, 's south down d ↓ move_south move_down'],
    [-1, 0, 'w west left l ← move_west move_left'],
    [1, 0, 'e east right r → move_east move_right'],
    [1, -1, 'ne northeast north-east ↗'],
    [-1, -1, 'nw northwest north-west ↖'],
    [1, 1, 'se southeast south-east ↘'],
    [-1, 1, 'sw southwest south-west ↙'],
  ].flatMap(([dx, dy, words]) => words.split(' ').map((word) => [word, [dx, dy]])),
);
const aimOf = (action) => AIMS.get(String(action).toLowerCase()) ?? null;

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
    const layers = ['floor', 'tints', 'heat', 'marks', 'arrows', 'trail', 'agent', 'words', 'focus'];
    Object.assign(this, boardOf(wide, tall, layers));
    this.floor(wide, tall);
    this.marks();
    this.box.replaceChildren(this.picture);
    this.show({});
  }

  corner(state) {
    const [x, y] = this.points[state];
    return [x - this.cell / 2, y - this.cell / 2];
  }

  squares(states, inset = 0) {
    const side = (this.cell - 2 * inset).toFixed(2);
    return states
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
    for (const range of plan.ranges) {
      const levels = new Map();
      for (const [state, share] of range.states) {
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
          text: column,
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
          text: row,
        }),
      );
    }
  }

  marks() {
    const { plan, cell } = this;
    const marks = this.layers.get('marks');
    const size = Math.min(6.5, cell * 0.085 + 1);
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
    const crosses = [...plan.traps].map((state) => {
      const [x, y] = this.points[state];
      return `M${x - reach},${y - reach}L${x + reach},${y + reach}M${x + reach},${y - reach}L${x - reach},${y + reach}`;
    });
    marks.append(svg('path', { class: 'trap', d: crosses.join(''), 'stroke-width': Math.min(3, cell * 0.07) }));
    const taken = new Map();
    for (const label of plan.labels) {
      if (plan.areas) {
        marks.append(
          svg('path', { class: `mark ${label.secret ? 'secret' : 'label'} tiny`, d: this.squares(label.states) }),
        );
        continue;
      }
      const paths = label.states.map((state) => {
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
      for (const [state] of range.states) {
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

  /** What changes: {time, agent, trail, heat, focus}; what is not given stays. */
  show(change) {
    Object.assign(this.state, change);
    const { agent, trail, heat, focus } = this.state;
    if (this.role !== 'belief') this.arrows();
    this.layers.get('heat').replaceChildren(
      ...arrayOf(heat)
        .slice(0, 2500)
        .map(([state, share]) => this.hot(state, share)),
    );
    this.layers.get('words').replaceChildren(
      ...(this.cell >= 34
        ? arrayOf(heat)
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

  arrows() {
    const levels = Array.from({ length: ARROW_LEVELS }, () => []);
    for (const [state, row] of this.plan.shares(this.state.time)) {
      if (this.plan.traps.has(state)) continue;
      for (const [action, share] of row) {
        if (share < 0.02) continue;
        const level = levels[Math.min(ARROW_LEVELS - 1, Math.floor(share * ARROW_LEVELS))];
        level.push(this.arrow(state, aimOf(this.plan.actions[action]), share));
      }
    }
    this.layers
      .get('arrows')
      .replaceChildren(
        ...levels.map((paths, level) =>
          svg('path', {
            class: `arrow level-${level}`,
            d: paths.join(''),
            'stroke-width': Math.min(2.2, this.cell * (0.022 + 0.008 * level) + 0.25),
          }),
        ),
      );
  }

  arrow(state, aim, share) {
    const [x, y] = this.points[state];
    if (aim === null) {
      const r = this.cell * (0.03 + 0.05 * share);
      return `M${(x - r).toFixed(2)},${y.toFixed(2)}a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0Z`;
    }
    const scale = this.cell * (aim[0] && aim[1] ? 0.74 : 1);
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
    this.byCell ??= new Map(this.grid.cells.map(([x, y], state) => [x + y * this.grid.width, state]));
    if (column < 0 || column >= this.grid.width || row < 0) return null;
    return this.byCell.get(column + row * this.grid.width) ?? null;
  }
}
