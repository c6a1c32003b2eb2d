// What comes out: how sure the observer gets, opacity over time, the search, classes of policies, the certificate.

const body = (section) => part(section, 'body');
const lead = (text) => el('p', { class: 'lead', text });
const obtained = (text) => (text ? el('p', { class: 'small obtained' }, el('bdi', { text: visible(text) })) : null);

function drawOutcomes({ posteriors }) {
  const figures = [
    ['sure', posteriors.sure, 'a final belief of 99% or more', posteriors.method],
    ['unsure', posteriors.unsure, 'a final belief of less than 75%', posteriors.method],
    ['wrong', posteriors.wrong, 'the best guess is not the secret', posteriors.wrong_method ?? posteriors.method],
  ].filter(([, share]) => Number.isFinite(share));
  const samples = Number.isFinite(posteriors.samples) ? `, from ${count(posteriors.samples, 'sampled run')}` : '';
  const exactly = posteriors.method === 'exact' ? '' : ' (exact)'; // beside estimates
  const host = body('outcomes');
  host.append(
    lead(
      'After the last observation the observer guesses the likeliest secret. How sure is it, and how often is it right?',
    ),
    el(
      'dl',
      { class: 'trio' },
      ...figures.map(([name, share, words, method]) =>
        el(
          'div',
          {},
          el('dt', { text: name }),
          el(
            'dd',
            { class: 'figure' },
            method === 'exact' ? null : el('span', { class: 'unit', text: 'about ' }),
            percent(share),
          ),
          el('dd', { class: 'note', text: words + (method === 'exact' ? exactly : samples) }),
        ),
      ),
    ),
  );
  const bins = posteriors.bins.slice(posteriors.bins.findIndex((bin) => bin.right + bin.wrong > 0));
  stackedBars(host, {
    label: 'How likely each confidence of the final guess is, split into right and wrong guesses',
    bars: bins.map((bin) => ({ from: bin.from, to: bin.to, parts: [bin.right, bin.wrong] })),
    names: ['guess is right', 'guess is wrong'],
    kinds: ['right', 'wrong'],
    xLabel: 'confidence of the guess',
  });
  host.append(...[obtained(posteriors.explanation)].filter(Boolean));
}

function drawDecline({ over_time: overTime, measurement }) {
  const host = body('decline');
  const { points } = overTime;
  const inexact = overTime.method !== 'exact';
  const before = measurement?.secret_entropy;
  host.append(
    lead(
      'Opacity after each observation: what is still unknown of the secret, H(Z | o₀ … oₜ). It never rises; where it falls, the observer learns.',
    ),
  );
  const charts = el('div', { class: 'chart-row' }, el('div'), el('div'));
  host.append(charts);
  lineChart(charts.firstChild, {
    label: 'Opacity over time',
    xs: points.map((point) => point.time),
    xLabel: 'time',
    series: [
      {
        name: 'opacity',
        unit: 'bits',
        values: points.map((point) => point.opacity),
        low: inexact ? points.map((point) => point.lower) : null,
        high: inexact ? points.map((point) => point.upper) : null,
      },
    ],
    marks: Number.isFinite(before) ? [{ name: 'before observing', value: before }] : [],
  });
  lineChart(charts.lastChild, {
    label: 'Guess error over time',
    xs: points.map((point) => point.time),
    xLabel: 'time',
    series: [{ name: 'guess error', values: points.map((point) => point.guess_error), kind: 'line-1' }],
  });
  host.append(...[obtained(overTime.explanation)].filter(Boolean));
}

function drawSearch({ solution, measurement }) {
  const host = body('search');
  const { trace } = solution;
  const of = measurement?.objective?.of ?? 'opacity';
  const names = arrayOf(measurement?.requirements).map((requirement) => visible(requirement.name));
  const xs = trace.map((step) => step.iteration);
  const several = (key) =>
    arrayOf(trace[0][key]).map((_, index) => ({
      name: `${key === 'slack' ? 'slack' : 'multiplier'} of ${names[index] ?? index + 1}`,
      values: trace.map((step) => step[key][index]),
    }));
  const asked = arrayOf(trace[0].slack).length > 0;
  host.append(lead(sentence(solution.status_text ?? '')));
  const row = el('div', { class: 'chart-row' });
  host.append(row);
  const chart = (series, options) => {
    if (!series.length) return;
    row.append(el('div'));
    lineChart(row.lastChild, {
      label: series.map((line) => line.name).join(', '),
      xs,
      xLabel: 'iteration',
      series,
      height: 190,
      ...options,
    });
  };
  const estimated = solution.gradients === 'sampled' ? 'estimated ' : '';
  const values = trace.map((step) => step.value);
  chart([{ name: estimated + of.replaceAll('_', ' '), unit: of === 'opacity' ? 'bits' : '', values }], { zero: false });
  chart(several('slack'), { digits: 4 });
  chart(several('multipliers'), { digits: 4 });
  const words = [
    solution.solver ? `solver ${solution.solver}` : null,
    solution.gradients ? `${solution.gradients} gradients` : null,
    arrayOf(solution.starts).length ? count(solution.starts.length, 'start') : null,
    Number.isFinite(solution.seconds) ? `${solution.seconds.toFixed(1)} s` : null,
  ];
  host.append(
    obtained(
      `The best start: ${words.filter(Boolean).join(', ')}.${asked ? ' Slack of at least 0 meets the requirement.' : ''}`,
    ),
  );
  const starts = arrayOf(solution.starts);
  if (starts.length < 2) return;
  const { head, rows } = startGroups(starts, of.replaceAll('_', ' '));
  host.append(
    el('h3', { text: rows.length === 1 ? 'All starts end alike' : 'Where the starts end, and how they differ' }),
    tableOf('The starts by where they end', head, rows, { cards: true }),
  );
}

/** The starts of the search by where they ended, and only the columns in which the groups differ. */
function startGroups(starts, of) {
  const groups = new Map();
  for (const start of starts) {
    const value = Number.isFinite(start.value) ? number(start.value) : '–';
    const key = [value, start.feasible, start.status].join();
    if (!groups.has(key)) groups.set(key, { value, members: [] });
    groups.get(key).members.push(start);
  }
  const ranked = [...groups.values()].sort((one, other) => (other.members[0].value ?? 0) - (one.members[0].value ?? 0));
  const range = (members, key, write) => {
    const values = members.map((start) => start[key]).filter(Number.isFinite);
    return values.length ? rangeWords(Math.min(...values), Math.max(...values), write) : '–';
  };
  const unique = (members, key) => [...new Set(members.map((start) => start[key]))].join(', ').replaceAll('_', ' ');
  const columns = [
    [{ text: of }, (group) => group.value],
    [{ text: 'starts', kind: 'numeric' }, ({ members }) => String(members.length)],
    [{ text: 'began at' }, ({ members }) => unique(members, 'kind')],
    [{ text: 'task' }, ({ members }) => (members[0].feasible ? 'met' : 'missed')],
    [{ text: 'ended' }, ({ members }) => unique(members, 'status')],
    [{ text: 'iterations', kind: 'numeric' }, ({ members }) => range(members, 'num_iterations', (n) => n.toLocaleString('en'))],
    [{ text: 'seconds', kind: 'numeric' }, ({ members }) => range(members, 'seconds', (s) => s.toFixed(1))],
  ];
  const shown = columns.filter(([, cell], index) => index < 2 || new Set(ranked.map(cell)).size > 1);
  return { head: shown.map(([head]) => head), rows: ranked.map((group) => shown.map(([, cell]) => cell(group))) };
}

function amountWords(amount, digits = 4) {
  if (amount.method === 'exact') return number(amount.value, digits);
  if (Number.isFinite(amount.standard_error))
    return `${number(amount.value, digits)} ± ${amount.standard_error.toPrecision(1)}`;
  return rangeWords(amount.lower, amount.upper, (end) => number(end, digits));
}

function drawClasses({ comparison, measurement }) {
  const host = body('classes');
  const low = comparison.objective?.direction === 'minimise';
  const bound = low ? comparison.lower_bound : comparison.upper_bound;
  const top = Math.max(measurement?.secret_entropy ?? 0, ...comparison.classes.map((rung) => rung.opacity.value), 1e-9);
  const marked = Number.isFinite(bound) && (comparison.objective?.of ?? 'opacity') === 'opacity';
  host.append(
    lead(
      `The best policy found of each class, by what it may look at. Bars are opacity, of ${number(top)} bits at most${marked ? '; the mark is the certified bound' : ''}.`,
    ),
  );
  const head = [
    { text: 'looks at' },
    { text: 'opacity', kind: 'numeric' },
    { text: 'opacity as a bar', kind: 'wide', unseen: true },
    { text: 'return', kind: 'numeric' },
    { text: 'guess error', kind: 'numeric' },
    { text: 'rows', kind: 'numeric' },
    { text: 'status' },
  ];
  const rows = comparison.classes.map((rung) => [
    named(rung.class, 40),
    amountWords(rung.opacity),
    barOf((rung.opacity.method === 'interval' ? rung.opacity.lower : rung.opacity.value) / top, '', marked ? bound / top : null),
    number(rung.return),
    percent(rung.guess_error.value),
    rung.num_rows.toLocaleString('en'),
    `${rung.carried ? `as ${rung.warm_from}` : rung.status.replaceAll('_', ' ')}${rung.feasible ? '' : ', misses the task'}`,
  ]);
  if (Number.isFinite(bound))
    rows.push([
      'any policy',
      boundWords(bound, low),
      barOf(marked ? bound / top : 0, 'bound'),
      '',
      '',
      '',
      comparison.is_trivial ? 'trivial bound' : 'certified bound',
    ]);
  host.append(tableOf('Classes of policies', head, rows, { cards: true }));
  if (comparison.scope) host.append(obtained(`The bound holds for ${comparison.scope}.`));
  for (const missed of arrayOf(comparison.unreached))
    host.append(obtained(`No answer for ${missed.class}: ${missed.reason}`));
}

/** What is read must still be a bound. */
const roundedUp = (bound) => (Math.ceil(bound * 1e4 - 1e-9) / 1e4).toFixed(4);
const roundedDown = (bound) => (Math.floor(bound * 1e4 + 1e-9) / 1e4).toFixed(4);
const boundWords = (bound, low) => (low ? `≥ ${roundedDown(bound)}` : `≤ ${roundedUp(bound)}`);

function drawCertificate({ certificate, measurement }) {
  const host = body('certificate');
  const of = (certificate.of ?? 'opacity').replaceAll('_', ' ');
  const unit = of === 'opacity' ? ' bits' : '';
  const interval = measurement?.opacity?.method === 'interval';
  const end = 'lower_bound' in certificate ? 'upper' : 'lower';
  const reached = of === 'opacity' ? measurement?.opacity?.[interval ? end : 'value'] : null;
  const ladder = arrayOf(certificate.ladder);
  const lower = 'lower_bound' in certificate;
  const bound = lower ? certificate.lower_bound : certificate.upper_bound;
  const boundOf = (rung) => (lower ? rung.lower_bound : rung.upper_bound);
  if (!Number.isFinite(bound)) {
    host.append(lead(`No policy meets the task. ${sentence(certificate.status_text ?? '')}`));
    return;
  }
  const words = Number.isFinite(reached) ? ` This one reaches ${amountWords(measurement.opacity)}.` : '';
  host.append(
    lead(`No policy can ${lower ? `get below ${roundedDown(bound)}` : `exceed ${roundedUp(bound)}`}${unit} of ${of}; this is proven${certificate.is_trivial ? ' (the trivial bound)' : ''}.${words}`),
  );
  const top = Math.max(bound, ...ladder.map((rung) => boundOf(rung) ?? 0), reached ?? 0, 1e-9);
  const low = Number.isFinite(reached) && !lower ? Math.max(0, reached - (top - reached) * 0.25 - 0.02 * top) : 0;
  const last = new Map(ladder.map((rung) => [`${rung.machine} ${rung.sees_observations}`, rung])); // of each machine
  const rows = [...last.values()].map((rung) => [
    el('bdi', {
      text:
        sentence(rung.machine).slice(0, -1) + (rung.sees_observations && !lower ? ' (policies that see the observations)' : ''),
    }),
    Number.isFinite(boundOf(rung)) ? boundWords(boundOf(rung), lower) : '–',
    Number.isFinite(boundOf(rung))
      ? barOf(
          (boundOf(rung) - low) / (top - low || 1),
          'bound',
          Number.isFinite(reached) ? (reached - low) / (top - low || 1) : null,
        )
      : '',
    Number.isFinite(rung.num_entries) ? rung.num_entries.toLocaleString('en') : '',
    `${rung.seconds.toFixed(1)} s`,
  ]);
  const head = [
    { text: lower ? 'the program of the bound' : 'the bound’s memory of observations' },
    { text: of, kind: 'numeric' },
    { text: `${of} as a bar`, kind: 'wide', unseen: true },
    { text: 'entries', kind: 'numeric' },
    { text: 'after', kind: 'numeric' },
  ];
  if (rows.length) host.append(tableOf('The ladder of bounds', head, rows, { cards: true }));
  if (rows.length && Number.isFinite(reached))
    host.append(
      el('p', { class: 'small', text: `Bars begin at ${number(low)}${unit}; the mark is what this policy reaches.` }),
    );
  host.append(
    obtained(
      [certificate.scope ? `Holds for ${certificate.scope}.` : '', sentence(certificate.status_text ?? '')].join(' '),
    ),
  );
}
