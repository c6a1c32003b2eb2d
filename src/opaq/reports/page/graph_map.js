// Graphs: nodes where the layout put them, curved edges as wide as they are likely, loops, names that keep clear.

const MOST_HEADS = 140; // states up to which every edge has its own path and an arrow head

class GraphMap {
  constructor(host, plan, { role, most = 820 }) {
    this.plan = plan;
    this.role = role;
    this.most = most;
    this.state = { time: null, agent: null, trail: [], heat: null, focus: null };
    this.box = el('div', { class: `map map-${role}` });
    host.append(this.box);
    onWidth(this.box, (width) => this.draw(width));
  }

  draw(width) {
    const { plan } = this;
    const wide = Math.min(width, this.most);
    this.radius =
      [
        [10, 19],
        [25, 15],
        [60, 10],
        [MOST_HEADS, 7],
        [Infinity, 4.2],
      ].find(([most]) => plan.size <= most)[1] * (wide < 420 ? 0.8 : 1);
    const margin = this.radius + (plan.size > MOST_HEADS ? 12 : 30);
    const { points, tall } = fitted(plan.model.graph.positions, wide, margin);
    this.points = points;
    this.centre = [wide / 2, tall / 2];
    const layers = ['edges', 'lit', 'trail', 'nodes', 'heat', 'marks', 'agent', 'words', 'focus'];
    Object.assign(this, boardOf(wide, tall, layers));
    this.edges();
    this.nodes();
    this.names(wide, tall);
    this.box.replaceChildren(this.picture);
    this.show({});
  }

  edges() {
    const all = this.plan.model.graph.edges;
    const both = new Set(all.map(([source, target]) => `${source}>${target}`));
    this.curves = all.map((edge) => ({
      source: edge[0],
      target: edge[1],
      data: edge,
      ...this.curve(edge[0], edge[1], both.has(`${edge[1]}>${edge[0]}`)),
    }));
    this.widen(this.state.time);
  }

  /** Edges as wide as the policy makes them likely at a time; null: on average. */
  widen(time) {
    this.widenedFor = time;
    for (const edge of this.curves) edge.share = this.plan.edgeShare(edge.data, time);
    const layer = this.layers.get('edges');
    if (this.plan.size <= MOST_HEADS) {
      layer.replaceChildren(
        ...this.curves.flatMap((edge) => this.edgeMarks(edge, edge.share > 0 ? 'edge' : 'edge unused')),
      );
      return;
    }
    const levels = new Map();
    for (const edge of this.curves) {
      const level = edge.share > 0 ? Math.ceil(edge.share * 3) : 0;
      levels.set(level, (levels.get(level) ?? '') + edge.path);
    }
    layer.replaceChildren(
      ...[...levels].map(([level, path]) =>
        svg('path', { class: level ? 'edge many' : 'edge many unused', d: path, 'stroke-width': 0.4 + 0.25 * level }),
      ),
    );
  }

  edgeMarks(edge, kind) {
    const wide = 0.9 + 2.2 * edge.share;
    const [x, y] = edge.tip;
    const [dx, dy] = edge.aim;
    const size = Math.min(4.5 + wide * 1.4, this.radius);
    const head = [
      [x, y],
      [x - size * (dx + 0.45 * dy), y - size * (dy - 0.45 * dx)],
      [x - size * (dx - 0.45 * dy), y - size * (dy + 0.45 * dx)],
    ];
    const path = svg('path', {
      class: kind,
      d: edge.path,
      'stroke-width': wide,
      'data-edge': `${edge.source}>${edge.target}`,
      'data-share': edge.share,
    });
    return [path, svg('path', { class: `${kind} head`, d: `${pathOf(head)}Z` })];
  }

  /** A bend to the side, so that the two directions do not lie on each other; a loop away from the middle. */
  curve(source, target, mutual) {
    const [x1, y1] = this.points[source];
    const r = this.radius;
    if (source === target) {
      const away = Math.atan2(y1 - this.centre[1], x1 - this.centre[0]);
      const spread = 0.5;
      const on = (angle, size) => [x1 + size * Math.cos(angle), y1 + size * Math.sin(angle)];
      const [start, end] = [on(away - spread, r), on(away + spread, r + 1.5)];
      const [c1, c2] = [on(away - 0.62, r * 2.9), on(away + 0.62, r * 2.9)];
      const path = `M${start.map(fixed)}C${c1.map(fixed)} ${c2.map(fixed)} ${end.map(fixed)}`;
      return {
        path,
        tip: end,
        aim: unit(end[0] - c2[0], end[1] - c2[1]),
        middle: on(away, r * 2.55),
        along: [-0.55, -0.3, 0, 0.3, 0.55].map((turn) => on(away + turn, r * (2.5 - 1.6 * Math.abs(turn)))),
      };
    }
    const [x2, y2] = this.points[target];
    const [ux, uy] = unit(x2 - x1, y2 - y1);
    const far = Math.hypot(x2 - x1, y2 - y1);
    const bend = far * (mutual ? 0.16 : 0.07);
    const control = [(x1 + x2) / 2 - uy * bend, (y1 + y2) / 2 + ux * bend];
    const [sx, sy] = unit(control[0] - x1, control[1] - y1);
    const [ex, ey] = unit(x2 - control[0], y2 - control[1]);
    const start = [x1 + sx * r, y1 + sy * r];
    const end = [x2 - ex * (r + 1.5), y2 - ey * (r + 1.5)];
    const at = (s) => [0, 1].map((i) => (1 - s) ** 2 * start[i] + 2 * s * (1 - s) * control[i] + s * s * end[i]);
    const along = [0.08, 0.2, 0.35, 0.5, 0.65, 0.8, 0.92].map(at);
    return {
      path: `M${start.map(fixed)}Q${control.map(fixed)} ${end.map(fixed)}`,
      tip: end,
      aim: [ex, ey],
      middle: at(0.5),
      along,
    };
  }

  nodes() {
    const { plan, radius } = this;
    const layer = this.layers.get('nodes');
    const marks = this.layers.get('marks');
    plan.model.states.forEach((_, state) => {
      const [cx, cy] = this.points[state];
      layer.append(svg('circle', { class: 'node', cx, cy, r: radius }));
      if (plan.starts.has(state) && this.role !== 'belief')
        marks.append(svg('circle', { class: 'start', cx, cy, r: radius, 'stroke-width': radius > 6 ? 2.6 : 2 }));
      if (plan.traps.has(state))
        marks.append(svg('circle', { class: 'trap', cx, cy, r: radius * 0.72, 'stroke-width': 1.2 }));
    });
    for (const range of this.role === 'belief' ? [] : plan.ranges) {
      for (const [state, share] of range.states) {
        const [cx, cy] = this.points[state];
        layer.append(
          svg('circle', {
            class: 'tint',
            'data-tint': range.tint,
            'fill-opacity': 0.2 + 0.35 * share,
            cx,
            cy,
            r: radius,
          }),
        );
      }
    }
    const size = Math.max(2.4, Math.min(5.5, radius * 0.36));
    const taken = new Map();
    for (const label of plan.labels) {
      const paths = label.states.map((state) => {
        const slot = taken.get(state) ?? 0;
        taken.set(state, slot + 1);
        const angle = -Math.PI / 4 - slot * 0.9;
        const [x, y] = this.points[state];
        return plan.size > MOST_HEADS && slot === 0
          ? shapePath(label.shape, x, y, radius * 0.62)
          : shapePath(label.shape, x + (radius + 1) * Math.cos(angle), y + (radius + 1) * Math.sin(angle), size);
      });
      marks.append(
        svg('path', { class: `mark ${label.secret ? 'secret' : 'label'} ${label.shape}`, d: paths.join('') }),
      );
    }
  }

  /** Names inside their nodes where they fit, else beside them where nothing is in the way; the rest on demand. */
  names(wide, tall) {
    const { plan, radius } = this;
    const layer = this.layers.get('words');
    this.inside = new Map(); // state -> its name, where it stands inside the node
    const taken = this.points.map(([x, y]) => [x - radius, y - radius, x + radius, y + radius]);
    const busy =
      this.curves.length <= 400
        ? this.curves.flatMap(({ along }) => along.map(([x, y]) => [x - 2, y - 2, x + 2, y + 2]))
        : [];
    if (plan.size > MOST_HEADS) return;
    for (const state of plan.model.states.keys()) {
      const text = shortened(plan.names[state], 16);
      const [x, y] = this.points[state];
      const size = radius > 12 ? 12 : 11;
      const half = Array.from(text).length * size * (radius > 12 ? 0.36 : 0.31) + 2;
      if (half <= radius - 1) {
        this.inside.set(state, svg('text', { class: 'node-name inside', x, y: y + 4, 'text-anchor': 'middle', text }));
        layer.append(this.inside.get(state));
        continue;
      }
      const spots = [
        [x, y + radius + size + 1],
        [x, y - radius - 5],
        [x + radius + half + 3, y + 4],
        [x - radius - half - 3, y + 4],
      ];
      const boxes = spots.map(([cx, base]) => [cx - half, base - size + 1, cx + half, base + 3]);
      const clashes = (box, others) =>
        others.filter((other) => box[2] >= other[0] && other[2] >= box[0] && box[3] >= other[1] && other[3] >= box[1])
          .length;
      const inside = (box) => box[0] >= 0 && box[1] >= 0 && box[2] <= wide && box[3] <= tall;
      const costs = boxes.map((box) => (inside(box) && clashes(box, taken) === 0 ? clashes(box, busy) : Infinity));
      const choice = costs.indexOf(Math.min(...costs));
      if (costs[choice] === Infinity) continue;
      taken.push(boxes[choice]);
      layer.append(
        svg('text', { class: 'node-name', x: spots[choice][0], y: spots[choice][1], 'text-anchor': 'middle', text }),
      );
    }
  }

  /** What changes: {time, agent, trail, heat, focus}; what is not given stays. */
  show(change) {
    Object.assign(this.state, change);
    const { time, agent, trail, heat, focus } = this.state;
    if (this.plan.byTime !== null && time !== this.widenedFor) this.widen(time);
    this.layers.get('heat').replaceChildren(
      ...arrayOf(heat)
        .slice(0, 2500)
        .flatMap(([state, share]) => this.hot(state, share)),
    );
    const dark = new Set(
      arrayOf(heat)
        .filter(([, share]) => heatOf(share) > 0.5)
        .map(([state]) => state),
    );
    for (const [state, name] of this.inside) name.classList.toggle('hot', dark.has(state));
    this.layers.get('trail').replaceChildren(...this.walked(trail));
    this.layers.get('agent').replaceChildren(...this.agentMarks(agent));
    this.light(focus);
  }

  hot(state, share) {
    const [cx, cy] = this.points[state];
    const spot = svg('circle', {
      class: 'heat',
      'data-state': state,
      'data-share': share,
      cx,
      cy,
      r: this.radius > 6 ? this.radius - 0.5 : this.radius * 1.5,
      'fill-opacity': heatOf(share).toFixed(3),
    });
    if (this.radius < 12 || share < 0.005) return [spot];
    const [kind, y] = this.inside.has(state)
      ? ['beside', cy + this.radius + 13]
      : [heatOf(share) > 0.5 ? 'hot' : '', cy + 4];
    return [
      spot,
      svg('text', { class: `heat-words ${kind}`, x: cx, y, 'text-anchor': 'middle', text: percent(share, 0) }),
    ];
  }

  walked(trail) {
    const edges = [];
    for (let i = 1; i < trail.length; i += 1) {
      const edge = this.curves.find(({ source, target }) => source === trail[i - 1] && target === trail[i]);
      if (edge) edges.push(svg('path', { class: 'trail', d: edge.path }));
    }
    return edges;
  }

  agentMarks(agent) {
    if (agent === null || agent === undefined) return [];
    const [cx, cy] = this.points[agent];
    const grown = this.radius + (this.radius > 6 ? 4 : 5);
    if (this.role === 'belief') return [svg('circle', { class: 'truth', cx, cy, r: grown })];
    return [
      svg('circle', { class: 'agent-ring', cx, cy, r: grown }),
      svg('circle', { class: 'agent', cx, cy: cy - grown, r: 5 }),
    ];
  }

  /** The edges that leave a state, with their probabilities. */
  light(focus) {
    const lit = this.layers.get('lit');
    const marks = this.layers.get('focus');
    if (focus === null) return (lit.replaceChildren(), marks.replaceChildren());
    const [cx, cy] = this.points[focus];
    const leaving = this.curves.filter(({ source }) => source === focus);
    lit.replaceChildren(
      ...leaving.flatMap((edge) => this.edgeMarks(edge, edge.share > 0 ? 'edge lit' : 'edge lit unused')),
    );
    const words = leaving.map((edge) =>
      svg('text', {
        class: 'edge-words',
        x: edge.middle[0],
        y: edge.middle[1] + 4,
        'text-anchor': 'middle',
        text: neat(edge.share),
      }),
    );
    const name =
      this.plan.size > 60
        ? [
            svg('text', {
              class: 'edge-words',
              x: cx,
              y: cy - this.radius - 7,
              'text-anchor': 'middle',
              text: shortened(this.plan.names[focus], 24),
            }),
          ]
        : [];
    marks.replaceChildren(svg('circle', { class: 'focus', cx, cy, r: this.radius + 3 }), ...words, ...name);
    return undefined;
  }

  stateAt(event) {
    const frame = this.picture.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    let best = null;
    let least = Math.max(this.radius + 6, 14);
    this.points.forEach(([px, py], state) => {
      const far = Math.hypot(px - x, py - y);
      if (far < least) [best, least] = [state, far];
    });
    return best;
  }
}

/** The positions in a box of this width, as tall as their proportions ask for within limits. */
function fitted(positions, wide, margin) {
  const [xs, ys] = [0, 1].map((axis) => positions.map((position) => position[axis]));
  const span = (values) => [Math.min(...values), Math.max(...values) - Math.min(...values)];
  const [[left, across], [upper, down]] = [span(xs), span(ys)];
  const inner = wide - 2 * margin;
  const tall = Math.round(
    Math.max(60, Math.min((inner * down) / (across || 1), Math.max(inner * 0.8, 300), 480)) + 2 * margin,
  );
  const at = (value, low, size, room) => (size > 1e-9 ? ((value - low) / size) * room : room / 2);
  return {
    tall,
    points: positions.map(([x, y]) => [
      margin + at(x, left, across, inner),
      margin + at(y, upper, down, tall - 2 * margin),
    ]),
  };
}

const fixed = (value) => value.toFixed(1);

function unit(x, y) {
  const size = Math.hypot(x, y) || 1;
  return [x / size, y / size];
}
