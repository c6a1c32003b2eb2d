// The model as a picture (or, where it is too large for one, as a table), with what is said of the state pointed at.

function mapOf(host, plan, options) {
  if (plan.model.grid) return new GridMap(host, plan, options);
  if (plan.model.graph) return new GraphMap(host, plan, options);
  return null;
}

function drawModel(data, plan) {
  const { sizes } = plan.model;
  part('model', 'sizes').textContent = `${[
    count(sizes.states, 'state'),
    count(sizes.actions, 'action'),
    count(sizes.observations, 'observation'),
    count(sizes.secret_values, 'secret value'),
  ].join(', ')}; a run makes ${count(sizes.horizon, 'move')}.`;
  const key = part('model', 'key');
  const map = mapOf(part('model', 'picture'), plan, { role: 'model' });
  if (map === null) return tableOfModel(plan);
  const say = inspector(map, plan, plan.model.grid ? 'cell' : 'state');
  part('model', 'picture').append(say.box);
  key.append(...keyOf(plan, { grid: plan.model.grid }), policyKey(data, plan, map, say.again));
  return undefined;
}

/** What the arrows or widths mean, and at which time. */
function policyKey(data, plan, map, again) {
  const whose = data.policy?.given ? 'The policy' : 'The uniform policy';
  const sees = plan.conditions.length
    ? ` looks at ${plan.conditions.map((name) => shortened(name, 30)).join(', ')}.`
    : ' looks at nothing.';
  const aims = plan.actions.some((_, action) => plan.aim(action) !== null);
  let meaning = 'The wider an edge, the likelier it is taken from its state.';
  if (plan.large) meaning = 'Arrows show the mean direction of the moves around them, bold where it goes often.';
  else if (plan.model.grid)
    meaning = aims
      ? 'The longer and bolder an arrow, the likelier the move; a dot is any other action.'
      : 'Point at a cell to see its actions.';
  const box = el(
    'div',
    { class: 'policy-key' },
    el('h3', { text: 'Policy' }),
    el('p', { class: 'small', text: `${whose}${sees} ${meaning}` }),
  );
  if (data.policy?.by_time_left_out)
    box.append(
      el('p', {
        class: 'small',
        text: 'It changes with time; that is too much for one page, so its average over the run is shown.',
      }),
    );
  if (plan.byTime === null) return box;
  const last = plan.byTime.length - 1;
  const output = el('output', { text: 'average over the run' });
  const slider = el('input', {
    type: 'range',
    min: -1,
    max: last,
    value: -1,
    id: 'policy-time',
    'aria-label': 'Time of the policy shown',
    'aria-valuetext': 'average over the run',
  });
  slider.addEventListener('input', () => {
    const time = Number(slider.value) < 0 ? null : Number(slider.value);
    output.textContent = time === null ? 'average over the run' : `at time ${time} of ${last}`;
    slider.setAttribute('aria-valuetext', output.textContent);
    map.show({ time });
    again();
  });
  box.append(el('label', { class: 'time-choice', for: 'policy-time' }, 'Shown: ', output), slider);
  return box;
}

/** Pointing at a state or moving to it by arrow keys says what it is. */
function inspector(map, plan, what) {
  const box = el('div', { class: 'inspector', role: 'status', 'aria-live': 'polite' });
  const hint = `Point at a ${what}, or focus the picture and use the arrow keys.`;
  let focus = null;
  const look = (state) => {
    if (state === focus) return;
    focus = state;
    map.show({ focus });
    say();
  };
  const say = () => {
    if (focus === null) return box.replaceChildren(el('p', { class: 'small', text: hint }));
    const lines = plan
      .describe(focus, map.state.time)
      .map(([name, text]) => el('div', {}, el('dt', { text: name }), el('dd', {}, el('bdi', { text }))));
    return box.replaceChildren(
      el('p', { class: 'inspected' }, named(plan.title(focus), 60)),
      el('dl', {}, ...lines),
    );
  };
  map.box.tabIndex = 0;
  map.box.setAttribute('role', 'application');
  map.box.setAttribute('aria-label', `Picture of the model. Arrow keys go from ${what} to ${what}.`);
  const point = (event) => look(map.stateAt(event) ?? focus); // between states the last one stays
  map.box.addEventListener('pointermove', point);
  map.box.addEventListener('pointerdown', point);
  map.box.addEventListener(
    'focus',
    () => map.box.matches(':focus-visible') && focus === null && look([...plan.starts.keys()][0] ?? 0),
  );
  map.box.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') look(null);
    if (!event.key.startsWith('Arrow') || focus === null) return;
    event.preventDefault();
    look(stateTowards(map.points, focus, event.key));
  });
  say();
  return { box, again: say };
}

const FEW = 8;

/** Too many states for a picture: what there is, counted. */
function tableOfModel(plan) {
  const { model } = plan;
  const shortOnes = plan.names.slice(0, 50).every((name) => Array.from(String(name)).length <= 12);
  const some = (states) => {
    const few = states.slice(0, shortOnes ? 4 : 1);
    const names = few.map((state) => shortened(plan.names[state], 40)).join(', ');
    const more = states.length - few.length;
    return el('bdi', { text: names + (more > 0 ? ` and ${more.toLocaleString('en')} more` : '') });
  };
  const rows = [];
  const add = (kind, name, states) =>
    rows.push([kind, name, states.length.toLocaleString('en'), percent(states.length / plan.size), some(states)]);
  add('start', '', [...plan.starts.keys()]);
  const labels = plan.labels.filter((label) => label.states.length > 0);
  for (const label of labels.slice(0, FEW)) add(label.secret ? 'secret' : 'label', named(label.name, 30), label.states);
  if (plan.traps.size) add('trap', '', [...plan.traps]);
  for (const { observation, states } of arrayOf(model.coverage).slice(0, FEW))
    add(
      model.coverage_stated ? 'sensor' : 'observation',
      named(observation, 30),
      states.map(([state]) => state),
    );
  const left = Math.max(0, labels.length - FEW) + Math.max(0, arrayOf(model.coverage).length - FEW);
  const head = [
    { text: 'what' },
    { text: 'name' },
    { text: 'states', kind: 'numeric' },
    { text: 'share', kind: 'numeric' },
    { text: 'such as' },
  ];
  document
    .querySelector('#model .picture-and-key')
    .replaceChildren(
      el(
        'div',
        { class: 'summary' },
        el('p', { class: 'small', text: 'Too many states for a picture; this is what they are.' }),
        tableOf('Summary of the model', head, rows, { cards: true }),
        left > 0
          ? el('p', {
              class: 'small',
              text: `and ${count(left, 'more label or observation', 'more labels and observations')}`,
            })
          : null,
      ),
    );
}
