// The policy as a table: the states that are visited, and how likely each action is there.

const FIRST_ROWS = 12;
const MOST_ROWS = 500;

function drawPolicy(data, plan) {
  const host = body('policy');
  const rows = [...plan.average];
  const whose = data.policy.given ? 'The policy' : 'No policy was given: the uniform policy';
  const averaged =
    plan.conditions.length === 1 && plan.conditions[0] === 'state'
      ? ''
      : ' What else it looks at is averaged out here, as it occurs.';
  host.append(
    lead(`${whose} looks at ${plan.conditions.map((name) => shortened(name, 30)).join(', ') || 'nothing'}.${averaged}`),
  );
  const used = plan.actions
    .map((_, action) => action)
    .filter((action) => rows.some(([, row]) => row.some(([chosen]) => chosen === action)));
  const columns = used.length <= 8 ? used : [];
  const cells = ([state, row]) => {
    const shares = new Map(row);
    const name = named(plan.names[state], 40);
    if (!columns.length) return [name, el('bdi', { text: plan.policyWords(state) })];
    return [name, ...columns.map((action) => shareCell(shares.get(action) ?? 0))];
  };
  const head = [
    { text: 'state' },
    ...(columns.length
      ? columns.map((action) => ({ text: shortened(plan.actions[action], 16), kind: 'share' }))
      : [{ text: 'actions' }]),
  ];
  const table = tableOf('The policy by state', head, rows.slice(0, FIRST_ROWS).map(cells));
  host.append(table);
  if (rows.length <= FIRST_ROWS) return;
  const shown = Math.min(rows.length, MOST_ROWS);
  const words =
    shown < rows.length
      ? `Show the first ${shown.toLocaleString('en')} of ${count(rows.length, 'state')}`
      : `Show all ${count(rows.length, 'state')}`;
  const more = el('button', { type: 'button', text: words });
  more.addEventListener('click', () => {
    table.replaceWith(tableOf('The policy by state', head, rows.slice(0, shown).map(cells)));
    more.remove();
  });
  host.append(more);
}

function shareCell(share) {
  const cell = el('span', { class: share > 0 ? 'share-cell' : 'share-cell none', text: share > 0 ? neat(share) : '·' });
  cell.style.setProperty('--share', String(Math.min(1, share)));
  return cell;
}
