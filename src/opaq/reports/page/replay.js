// Belief replay: one run, step by step; left what happens, right what the observer receives and believes.

const KINDS = new Map([
  ['sampled', 'Sampled runs'],
  ['revealing', 'Most revealing observations'],
  ['confusing', 'Most confusing observations'],
]);
const MOST_CHIPS = 80; // observations shown as a row of buttons
const PACE = 900; // milliseconds per step at the speed 1
const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];

class Replay {
  constructor(host, data, plan) {
    this.data = data;
    this.plan = plan;
    this.run = 0;
    this.time = 0;
    this.timer = null;
    this.host = host;
    host.append(this.runPicker(), this.controls(), this.stage(), this.timeline());
    host.addEventListener('keydown', (event) => this.key(event));
    this.select(0);
  }

  get moments() {
    return this.data.runs[this.run];
  }

  get moment() {
    return this.moments[this.time];
  }

  get info() {
    return this.data.run_info?.[this.run] ?? {};
  }

  runPicker() {
    this.picker = el('select', { id: 'run' });
    const infos = this.data.runs.map(
      (_, run) => this.data.run_info?.[run] ?? { kind: 'sampled', title: `Run ${run + 1}` },
    );
    for (const [kind, title] of KINDS) {
      const options = infos.flatMap((info, run) =>
        info.kind === kind ? [el('option', { value: run, text: visible(info.title) })] : [],
      );
      if (options.length) this.picker.append(el('optgroup', { label: title }, ...options));
    }
    this.picker.addEventListener('change', () => this.select(Number(this.picker.value)));
    this.note = el('p', { class: 'run-note' });
    return el('div', { class: 'run-choice' }, el('label', { for: 'run', text: 'Run' }), this.picker, this.note);
  }

  controls() {
    const button = (label, text, action) =>
      el('button', { type: 'button', 'aria-label': label, title: label, text, onclick: action });
    this.playButton = button('Play', '▶', () => this.toggle());
    this.playButton.className = 'play';
    this.slider = el('input', { type: 'range', min: 0, step: 1, 'aria-label': 'Time', id: 'time' });
    this.slider.addEventListener('input', () => (this.pause(), this.go(Number(this.slider.value))));
    this.clock = el('output', { class: 'clock', for: 'time' });
    this.speed = el(
      'select',
      { id: 'speed', title: 'Speed', 'aria-label': 'Speed' },
      ...SPEEDS.map((speed) => el('option', { value: speed, text: `${speed}×` })),
    );
    this.speed.value = '1';
    this.speed.addEventListener('change', () => this.timer !== null && this.play());
    const back = button('Previous step', '←', () => (this.pause(), this.go(this.time - 1)));
    const forth = button('Next step', '→', () => (this.pause(), this.go(this.time + 1)));
    back.dataset.step = 'previous';
    forth.dataset.step = 'next';
    this.live = el('p', { class: 'unseen', role: 'status', 'aria-live': 'polite', 'data-part': 'spoken' });
    return el(
      'div',
      { class: 'controls' },
      el('div', { class: 'buttons' }, back, this.playButton, forth),
      this.slider,
      this.speed,
      this.clock,
      this.live,
    );
  }

  stage() {
    const side = (name, title) => {
      const facts = el('dl', { class: 'facts' });
      const map = el('div', { class: 'side-map' });
      const box = el('div', { class: `side side-${name}` }, el('h3', { text: title }), facts, map);
      return { box, facts, map };
    };
    this.left = side('agent', 'What happens');
    this.right = side('observer', 'What the observer believes');
    const stage = el('div', { class: 'stage' }, this.left.box, this.right.box);
    this.host.append(stage); // in the page before maps are drawn: they ask for their width
    this.agentMap = mapOf(this.left.map, this.plan, { role: 'agent', most: 460 });
    this.beliefMap = mapOf(this.right.map, this.plan, { role: 'belief', most: 460 });
    for (const map of [this.agentMap, this.beliefMap]) {
      map?.box.setAttribute('role', 'img');
      map?.box.setAttribute(
        'aria-label',
        map === this.agentMap ? 'The agent in the model' : 'The belief over states as heat',
      );
    }
    if (this.agentMap) this.left.map.append(this.agentKey());
    if (this.beliefMap) this.right.map.append(heatKey());
    this.likely = el('div', { class: 'likely' });
    this.bars = el('ul', { class: 'bars' });
    this.right.box.append(this.likely);
    return stage;
  }

  agentKey() {
    const dot = el('span', { class: 'swatch agent-dot', 'aria-hidden': 'true' });
    let words = 'the agent and where it came from';
    const when = this.plan.byTime ? ' at this time' : this.data.policy?.by_time_left_out ? ' on average' : '';
    const arrows = this.plan.large ? '; shade and arrows: where the policy goes' : '; arrows: the policy';
    words += this.plan.model.grid ? arrows : '; the wider an edge, the likelier it is taken';
    words += when;
    return el('p', { class: 'map-key' }, el('span', { class: 'pair' }, dot, el('span', { text: words })));
  }

  timeline() {
    this.chips = el('ol', { class: 'chips', 'aria-label': 'Observations' });
    this.curve = el('div', { class: 'entropy' });
    this.toCome = el('p', { class: 'small to-come' });
    const seen = el(
      'div',
      { class: this.agentMap ? 'side' : 'side whole' },
      el('h3', { text: 'Observations so far' }),
      this.chips,
      this.toCome,
    );
    const kind = this.plan.secretKind ? `, by ${this.plan.secretKind.trim()}` : '';
    const secret = el('div', { class: 'side' }, el('h3', { text: `Belief about the secret${kind}` }), this.bars);
    const entropy = el(
      'div',
      { class: 'side whole' },
      el('h3', { text: 'What is still unknown of the secret' }),
      this.curve,
    );
    if (!this.agentMap) this.left.box.append(secret); // where there is no picture there is room
    return el('div', { class: 'timeline' }, seen, this.agentMap ? secret : null, entropy);
  }

  /** Another run, from a time on. */
  select(run, time = 0) {
    this.pause();
    this.run = Math.max(0, Math.min(this.data.runs.length - 1, Math.trunc(run) || 0));
    this.picker.value = String(this.run);
    this.slider.max = String(this.moments.length - 1);
    this.note.replaceChildren(...this.runWords());
    this.drawChips();
    this.curve.replaceChildren();
    const measured = this.data.measurement; // of a trajectory the curve is about the present, not about all of it
    const start = measured?.opacity_per_step ? undefined : measured?.secret_entropy;
    this.entropy = lineChart(this.curve, {
      label: 'Entropy of the belief about the secret over time',
      xs: this.moments.map((moment) => moment.time),
      xLabel: 'time',
      series: [{ name: 'entropy of the belief', unit: 'bits', values: this.moments.map((moment) => moment.entropy) }],
      marks: Number.isFinite(start) ? [{ name: 'before observing', value: start }] : [],
      height: 160,
    });
    this.go(time);
  }

  runWords() {
    const { secret, probability, bits, note, kind } = this.info;
    const words = [];
    if (secret) words.push(`The secret is ${this.plan.secretKind}`, named(secret), '. ');
    if (Number.isFinite(probability))
      words.push(
        `These observations have probability ${neat(probability)}`,
        Number.isFinite(bits)
          ? ` and make up ${number(bits)} bits of ${kind === 'revealing' ? 'leakage' : 'opacity'}. `
          : '. ',
      );
    if (note) words.push(el('span', { class: 'muted' }, el('bdi', { text: sentence(note) })));
    return words;
  }

  drawChips() {
    const moments = this.moments.length <= MOST_CHIPS ? this.moments : [];
    this.chips.hidden = moments.length === 0;
    const common = mostFrequent(this.data.runs.flatMap((run) => run.map((moment) => moment.observation)));
    this.chips.replaceChildren(
      ...moments.map((moment, time) =>
        el(
          'li',
          {},
          el(
            'button',
            {
              type: 'button',
              class: moment.observation === common ? 'chip common' : 'chip',
              'data-time': time,
              onclick: () => (this.pause(), this.go(time)),
            },
            el('span', { class: 'chip-time', text: moment.time }),
            named(moment.observation, 14),
          ),
        ),
      ),
    );
  }

  /** To a time of the run; beyond its ends, to the end. */
  go(time) {
    this.time = Math.max(0, Math.min(this.moments.length - 1, Math.trunc(time) || 0));
    const { moment, plan } = this;
    const last = this.moments.length - 1;
    this.slider.value = String(this.time);
    this.slider.setAttribute('aria-valuetext', `time ${moment.time} of ${last}`);
    this.clock.textContent = `t = ${moment.time} of ${last}`;
    const walked = this.moments
      .slice(0, this.time + 1)
      .map(({ state }) => plan.index.get(state))
      .filter((state) => state !== undefined);
    const agent = plan.index.get(moment.state) ?? null;
    this.agentMap?.show({ time: moment.time, agent, trail: walked });
    this.beliefMap?.show({ time: moment.time, heat: moment.states, agent });
    this.left.facts.replaceChildren(...agentFacts(moment, plan, agent));
    this.right.facts.replaceChildren(...observerFacts(moment, agent));
    this.bars.replaceChildren(...secretBars(moment, moment.word ?? this.info.secret, plan.model));
    this.likely.replaceChildren(...(this.beliefMap ? likelyWords(moment, plan) : stateBars(moment, plan, agent)));
    const focused = this.chips.contains(document.activeElement); // a button that is hidden would lose the focus
    for (const chip of this.chips.querySelectorAll('.chip')) {
      const own = Number(chip.dataset.time);
      chip.parentNode.hidden = own > this.time; // what is still to come has not been observed
      if (own === this.time) chip.setAttribute('aria-current', 'step');
      else chip.removeAttribute('aria-current');
    }
    if (focused) this.chips.querySelector('[aria-current]').focus();
    const left = last - this.time;
    this.toCome.textContent = left ? `${left.toLocaleString('en')} more to come` : 'all observed';
    this.entropy.cursor(moment.time);
    this.speak();
    this.mark();
  }

  speak() {
    if (this.timer !== null) return; // while it plays, a reader would never come to an end
    const { moment } = this;
    const [value, share] = [...new Map(Object.entries(moment.belief))].reduce((one, other) =>
      other[1] > one[1] ? other : one,
    );
    const where = moment.state ? `The agent is in ${shortened(this.plan.names[this.plan.index.get(moment.state)] ?? moment.state, 40)}. ` : '';
    this.live.textContent = `Time ${moment.time}. ${where}The observer receives ${shortened(moment.observation, 40)} and thinks ${this.plan.secretKind}${shortened(value, 40)} likeliest, with ${percent(share)}. ${number(moment.entropy)} bits.`;
  }

  toggle() {
    if (this.timer !== null) return (this.pause(), this.speak());
    if (this.time === this.moments.length - 1) this.go(0);
    return this.play();
  }

  /** On to the end at the speed that is chosen. */
  play() {
    clearInterval(this.timer);
    this.timer = setInterval(() => {
      if (this.time < this.moments.length - 1) this.go(this.time + 1);
      if (this.time === this.moments.length - 1) (this.pause(), this.speak());
    }, PACE / Number(this.speed.value));
    this.drawPlay('Pause', '❚❚');
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.drawPlay('Play', '▶');
  }

  drawPlay(label, sign) {
    this.playButton.textContent = sign;
    this.playButton.setAttribute('aria-label', label);
    this.playButton.title = label;
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target instanceof HTMLSelectElement) return;
    const moves = new Map([
      ['ArrowLeft', this.time - 1],
      ['ArrowRight', this.time + 1],
      ['Home', 0],
      ['End', this.moments.length - 1],
    ]);
    if (moves.has(event.key)) {
      event.preventDefault();
      this.pause();
      this.go(moves.get(event.key));
    } else if (event.key === ' ' && !(event.target instanceof HTMLButtonElement)) {
      event.preventDefault();
      this.toggle();
    }
  }

  /** The address names what is shown, so that it can be passed on. */
  mark() {
    if (!this.ready) return;
    try {
      history.replaceState(null, '', `#run=${this.run}&t=${this.time}`);
    } catch {
      /* some viewers forbid it */
    }
  }

  /** What an address asks for: #run=2&t=5. */
  follow(address) {
    const asked = new URLSearchParams(address.replace(/^#/, ''));
    if (asked.has('run') || asked.has('t')) this.select(Number(asked.get('run') ?? 0), Number(asked.get('t') ?? 0));
    this.ready = true;
    return asked.has('run') || asked.has('t');
  }
}
