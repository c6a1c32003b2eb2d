// The table of a study: one row per point, sorted by its heads, filtered by one line of text.

const ROWS_AT_ONCE = 500;

class PointTable {
  /** onFilter(set of indices), onSelect(index). */
  constructor(host, data, columns, { onFilter, onSelect }) {
    Object.assign(this, { data, columns, onFilter, onSelect });
    this.sorted = { column: null, descending: false };
    this.selected = null;
    this.limit = ROWS_AT_ONCE;
    this.hasReports = data.points.some((point) => point.report);
    this.texts = data.points.map((point) =>
      [...columns.map((column) => column.words(point)), point.error ?? ''].join('\n').toLowerCase(),
    );
    this.order = data.points.map((_, index) => index);
    this.body = el('tbody', {});
    this.heads = columns.map((column) => this.head(column));
    host.append(this.filterBox(), this.table(), this.more());
    this.apply();
    addEventListener('pageshow', () => this.apply()); // browsers bring back what was typed
  }

  filterBox() {
    const varied = this.columns.find((column) => column.parameter && column.values().length > 0);
    const hint = varied ? `${varied.key} = ${shortened(varied.values()[0], 16)}` : 'opacity > 0.5';
    this.input = el('input', {
      type: 'search',
      id: 'filter',
      class: 'filter',
      placeholder: shortened(hint, 60),
      autocomplete: 'off',
      spellcheck: 'false',
      'aria-describedby': 'filter-help',
    });
    this.input.addEventListener('input', () => {
      this.limit = ROWS_AT_ONCE;
      this.apply();
    });
    this.status = el('p', { class: 'small', role: 'status', 'aria-live': 'polite', 'data-part': 'count' });
    const help = el(
      'p',
      { class: 'small', id: 'filter-help' },
      'Text to search for, and terms such as ',
      el('code', { text: 'opacity > 0.5' }),
      ', ',
      el('code', { text: 'status = converged' }),
      ' or ',
      el('code', { text: 'status != failed' }),
      '; a point is shown when it meets them all.',
    );
    return el(
      'div',
      { class: 'filtering' },
      el('label', { for: 'filter', text: 'Filter' }),
      this.input,
      help,
      this.status,
    );
  }

  head(column) {
    const button = el(
      'button',
      { type: 'button', class: 'sorter', title: `Sort by ${visible(column.key)}` },
      named(column.title, 36),
      el('span', { class: 'sort-mark', 'aria-hidden': 'true' }),
    );
    button.addEventListener('click', () => this.sortBy(column));
    return el('th', { scope: 'col', class: column.numeric ? 'numeric' : null, 'data-key': column.key }, button);
  }

  table() {
    const [name, ...others] = this.heads;
    const report = this.hasReports ? el('th', { scope: 'col', text: 'report' }) : null;
    const head = el('thead', {}, el('tr', {}, name, report, ...others));
    this.body.addEventListener('click', (event) => event.target.closest('a') ?? this.pick(event));
    // Not when the mouse brings the focus: what is said of a point would move the link from under it.
    this.body.addEventListener('focusin', (event) => event.target.matches(':focus-visible') && this.pick(event));
    return el(
      'div',
      { class: 'scroller points', tabindex: '0', role: 'region', 'aria-label': 'The points' },
      el('table', {}, head, this.body),
    );
  }

  pick(event) {
    const row = event.target.closest('tr[data-index]');
    if (row) this.onSelect(Number(row.dataset.index));
  }

  more() {
    this.moreButton = el('button', { type: 'button' });
    this.moreButton.addEventListener('click', () => {
      const before = this.body.children.length;
      this.limit += 4 * ROWS_AT_ONCE;
      this.fill({ keep: true });
      this.body.children[before]?.querySelector('a')?.focus();
    });
    return el('p', {}, this.moreButton);
  }

  /** Upwards, then downwards, then as the study has them. */
  sortBy(column) {
    const again = this.sorted.column === column;
    this.sorted = again && this.sorted.descending ? { column: null, descending: false } : { column, descending: again };
    this.apply();
  }

  apply() {
    const filter = filterOf(this.input.value, this.columns);
    const { points } = this.data;
    const kept = points.map((_, index) => index).filter((index) => filter.keeps(points[index], this.texts[index]));
    this.order = this.inOrder(kept);
    const faults = filter.faults.length ? ` ${filter.faults.join(' ')}` : '';
    this.status.textContent = `${kept.length.toLocaleString('en')} of ${count(points.length, 'point')} shown.${faults}`;
    this.status.classList.toggle('complaint', filter.faults.length > 0);
    this.heads.forEach((head, index) => this.markHead(head, this.columns[index]));
    this.fill();
    this.tell(kept);
  }

  /** The plot is drawn anew only for other points. */
  tell(kept) {
    const same = this.kept?.length === kept.length && kept.every((index, at) => index === this.kept[at]);
    this.kept = kept;
    if (!same) this.onFilter(new Set(kept));
  }

  inOrder(kept) {
    const { column, descending } = this.sorted;
    if (column === null) return kept;
    const keys = new Map(kept.map((index) => [index, column.value(this.data.points[index])]));
    const missing = (index) => keys.get(index) === null;
    const compared = (one, other) => (descending ? -1 : 1) * inOrder(keys.get(one), keys.get(other));
    return [...kept.filter((index) => !missing(index)).sort(compared), ...kept.filter(missing)];
  }

  markHead(head, column) {
    const own = this.sorted.column === column;
    if (own) head.setAttribute('aria-sort', this.sorted.descending ? 'descending' : 'ascending');
    else head.removeAttribute('aria-sort');
    head.querySelector('.sort-mark').textContent = own ? (this.sorted.descending ? '▼' : '▲') : '';
  }

  /** The first rows of the order; `keep` leaves those that are there and adds the rest. */
  fill({ keep = false } = {}) {
    const shown = this.order.slice(0, this.limit);
    if (keep) this.body.append(...shown.slice(this.body.children.length).map((index) => this.row(index)));
    else this.body.replaceChildren(...shown.map((index) => this.row(index)));
    const left = this.order.length - shown.length;
    const next = Math.min(left, 4 * ROWS_AT_ONCE);
    this.moreButton.hidden = left <= 0;
    this.moreButton.textContent = `Show ${next.toLocaleString('en')} more of ${left.toLocaleString('en')}`;
  }

  row(index) {
    const point = this.data.points[index];
    const [, ...columns] = this.columns;
    const cells = columns.map((column) => this.cell(point, column));
    const link = this.hasReports ? el('td', {}, reportLink(point, 'open')) : null;
    const row = el(
      'tr',
      { 'data-index': index, class: `outcome-${outcomeOf(point)}` },
      el('th', { scope: 'row' }, named(point.point, 24)),
      link,
      ...cells,
    );
    if (index === this.selected) row.classList.add('selected');
    return row;
  }

  cell(point, column) {
    const isStatus = column.key === 'status' && !column.parameter;
    const fault = isStatus && point.error ? el('span', { class: 'range error', text: visible(point.error) }) : null;
    const words = column.words(point);
    const shown = shortened(words, 60);
    const title = shown === words ? null : visible(words);
    return el('td', { class: column.numeric ? 'numeric' : isStatus ? 'status' : null, title }, shown, fault);
  }

  /** Mark the row of a point; `go` also brings it into view and moves the focus there. */
  select(index, { go = false } = {}) {
    this.selected = index;
    for (const row of this.body.querySelectorAll('.selected')) row.classList.remove('selected');
    if (go) this.reveal(index);
    const row = this.body.querySelector(`tr[data-index="${index}"]`);
    row?.classList.add('selected');
    if (!go || !row) return;
    row.scrollIntoView({ block: 'center' });
    const target = row.querySelector('a') ?? row;
    if (target === row) row.tabIndex = -1;
    target.focus({ preventScroll: true });
  }

  reveal(index) {
    const position = this.order.indexOf(index);
    if (position < this.limit) return;
    this.limit = position + 1;
    this.fill({ keep: true });
  }
}

/** A link to the report of a point, relative to the page: no name can make it lead elsewhere. */
function reportLink(point, text) {
  if (!point.report) return null;
  const path = point.report.split('/').map(encodeURIComponent).join('/');
  const label = `${text}: report of point ${visible(point.point)}`;
  return el('a', { href: `./${path}`, 'aria-label': label, text });
}
