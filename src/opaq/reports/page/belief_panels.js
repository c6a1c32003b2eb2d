// What is said beside the pictures of the replay: facts of the moment, bars of beliefs, the key of the heat.

const MOST_BARS = 12; // secret values with a bar of their own
const MOST_STATES = 10; // states with a bar where there is no picture

const fact = (name, ...content) => el('div', {}, el('dt', { text: name }), el('dd', {}, ...content));
const faint = (text) => el('span', { class: 'muted', text });

function agentFacts(moment, plan, agent) {
  const over = moment.time >= plan.model.sizes.horizon;
  const policy = agent === null ? null : plan.policyWords(agent, moment.time);
  const action = moment.action ? named(moment.action) : faint('not known');
  return [
    fact('state', moment.state ? named(plan.names[agent] ?? moment.state) : faint('not known')),
    fact('action', over ? faint('none: the run is over') : action),
    fact('policy here', over || !policy ? faint('–') : el('bdi', { text: policy })),
  ];
}

function observerFacts(moment, agent) {
  return [
    fact('received', named(moment.observation)),
    fact('entropy', `${number(moment.entropy)} bits`),
    fact('true state', agent === null ? faint('not known') : believed(moment, agent)),
    ...(moment.guess === undefined ? [] : [fact('most likely run', named(moment.guess), guessTag(moment))]),
  ];
}

/** Whether the most likely run, given all that is seen, has the truth at this moment. */
function guessTag(moment) {
  return faint(moment.guess === moment.word ? ' (right)' : ' (wrong)');
}

/** How likely the observer thinks the true state; of those too unlikely to be listed only a limit is known. */
function believed(moment, agent) {
  const entry = moment.states.find(([state]) => state === agent);
  if (entry) return `believed with ${neat(entry[1])}`;
  return `believed with ${moment.rest > 0 ? `at most ${neat(moment.rest)}` : '0%'}`;
}

function beliefBar(name, share, own, most = 32) {
  const tag = own ? el('span', { class: 'true-tag', text: 'true' }) : null;
  return el(
    'li',
    { class: own ? 'own' : null, 'data-share': share },
    el('span', { class: 'bar-name' }, named(name, most), tag),
    barOf(share),
    el('span', { class: 'bar-value', text: percent(share) }),
  );
}

/** The belief about the secret: the likeliest values and the true one, and how much is left for the others. */
function secretBars(moment, secret, model) {
  const possible = new Set(model.secret_values);
  const total = model.sizes.secret_values;
  const ranked = Object.entries(moment.belief).filter(([value]) => possible.has(value));
  if (ranked.length > MOST_BARS) ranked.sort((one, other) => other[1] - one[1]);
  const shown = ranked.filter(([value], index) => index < MOST_BARS || value === secret);
  const bars = shown.map(([value, share]) => {
    const bar = beliefBar(value, share, value === secret);
    bar.dataset.value = value;
    return bar;
  });
  const left = total - shown.length; // those too unlikely to be in the data are among them
  if (left <= 0) return bars;
  const share = 1 - shown.reduce((sum, entry) => sum + entry[1], 0);
  return [...bars, el('li', { class: 'rest' }, `${count(left, 'other value')}: ${percent(Math.max(0, share))}`)];
}

function othersWords(moment, shown) {
  const left = moment.states.slice(shown).reduce((sum, [, share]) => sum + share, 0) + (moment.rest || 0);
  return left > 1e-9 ? `all other states together ${percent(left)}` : '';
}

/** The likeliest states in words, below the picture. */
function likelyWords(moment, plan) {
  const names = moment.states
    .slice(0, 3)
    .flatMap(([state, share], index) => [index ? ', ' : '', named(plan.names[state], 48), ` ${percent(share)}`]);
  const others = othersWords(moment, 3);
  return [el('p', { class: 'small' }, 'Likeliest: ', ...names, others ? `; ${others}` : '')];
}

/** The belief about the state as bars, where there is no picture. */
function stateBars(moment, plan, agent) {
  const bars = moment.states.slice(0, MOST_STATES).map(([state, share]) => {
    const bar = beliefBar(plan.names[state], share, state === agent, 64);
    bar.dataset.state = state;
    return bar;
  });
  return [
    el('h3', { text: 'Belief about the state' }),
    el('ul', { class: 'bars long' }, ...bars),
    el('p', { class: 'small', text: othersWords(moment, MOST_STATES) }),
  ];
}

function heatKey() {
  const steps = [0.01, 0.05, 0.2, 0.5, 1].map((share) => {
    const box = el('span', { class: 'swatch heat-swatch', 'aria-hidden': 'true' }, el('span'));
    box.firstChild.style.opacity = heatOf(share);
    return el('span', { class: 'heat-step' }, box, percent(share, 0));
  });
  const ring = el('span', { class: 'swatch truth-ring', 'aria-hidden': 'true' });
  return el(
    'p',
    { class: 'map-key' },
    el('span', { class: 'pair' }, ring, 'where the agent really is'),
    el('span', { class: 'pair' }, ...steps),
  );
}

function mostFrequent(names) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].reduce((one, other) => (other[1] > one[1] ? other : one), [null, 0])[0];
}
