// The columns of a study: what a point has there, to compare by and to read.

const FIGURE_DIGITS = {
  opacity: 4,
  objective: 4,
  upper_bound: 4,
  lower_bound: 4,
  guess_error: 4,
  return: 4,
  value: 4,
  slope: 4,
};
const MEASURES = ['opacity', 'objective', 'guess_error', 'value', 'return'];

const isAmount = (value) => value !== null && typeof value === 'object' && 'method' in value && 'value' in value;

class Column {
  constructor({ key, title, parameter = false, numeric = false }, { points, fallback, minimise }) {
    Object.assign(this, { key, title, parameter, numeric, points, fallback, minimise });
  }

  /** What a point has: undefined where it says nothing, null where it says that something is left out. */
  raw(point) {
    const holder = this.parameter ? point.parameters : point;
    return Object.hasOwn(holder, this.key) ? holder[this.key] : undefined;
  }

  /** A number or a text to sort and filter by, or null. */
  value(point) {
    const raw = this.raw(point);
    if (!this.parameter && isAmount(raw))
      return raw.method === 'interval' ? (this.minimise ? raw.upper : raw.lower) : raw.value; // the end that is proven
    if (raw === '' && !this.parameter) return null;
    if (raw === undefined || raw === null)
      return this.parameter && raw === null && !this.numeric ? this.fallback : null;
    return typeof raw === 'number' || typeof raw === 'string' ? raw : JSON.stringify(raw);
  }

  words(point) {
    const raw = this.raw(point);
    if (raw === undefined) return '';
    if (raw === null) return this.parameter ? this.fallback : '–';
    if (!this.parameter && isAmount(raw)) {
      if (raw.method === 'interval') return rangeWords(raw.lower, raw.upper, (end) => number(end, 4));
      const error = this.error(point);
      return number(raw.value, FIGURE_DIGITS[this.key]) + (error === null ? '' : ` ± ${Number(error.toPrecision(2))}`);
    }
    if (this.key === 'seconds' && !this.parameter) return formatOf(raw < 1 ? 2 : 1).format(raw);
    if (this.key.endsWith('er_bound') && !this.parameter && point.is_trivial) return `${number(raw, 4)} (trivial)`;
    if (typeof raw === 'number')
      return this.parameter ? minus(String(Number(raw.toPrecision(7)))) : number(raw, FIGURE_DIGITS[this.key] ?? 4);
    const text = typeof raw === 'string' ? raw : JSON.stringify(raw);
    return this.key === 'status' && !this.parameter ? text.replaceAll('_', ' ') || 'no result yet' : text;
  }

  /** The interval of an amount that is not exact, or one standard error to each side of an estimate; else null. */
  interval(point) {
    const raw = this.parameter ? null : this.raw(point);
    const error = this.error(point);
    if (error !== null) return [raw.value - error, raw.value + error];
    return isAmount(raw) && raw.upper - raw.lower > 1e-9 ? [raw.lower, raw.upper] : null;
  }

  /** The standard error of an estimate, or null. */
  error(point) {
    const raw = this.parameter ? null : this.raw(point);
    return isAmount(raw) && typeof raw.standard_error === 'number' ? raw.standard_error : null;
  }

  /** The different values of all points, in order; those that say nothing have none. */
  values() {
    const stated = () => this.points.map((point) => this.value(point)).filter((value) => value !== null);
    this.different ??= [...new Set(stated())].sort(inOrder);
    return this.different;
  }
}

/** Numbers before texts, each among themselves. */
function inOrder(one, other) {
  if (typeof one !== typeof other) return typeof one === 'number' ? -1 : 1;
  if (typeof one === 'number') return one - other;
  return one.localeCompare(other, 'en', { numeric: true });
}

/** Whether what the tasks are about is to be small. */
const minimises = (data) => data.objective?.direction === 'minimise';

/** What became of a point, in one word. */
function outcomeOf(point) {
  if (!point.status) return 'unfinished';
  if (point.status === 'failed') return 'failed';
  return point.feasible ? 'feasible' : 'infeasible';
}

function columnsOf(data) {
  const fallback = data.source === 'frontier' ? 'any' : 'null';
  const all = [{ key: 'point', title: 'point' }, ...data.columns];
  return all.map((column) => new Column(column, { points: data.points, fallback, minimise: minimises(data) }));
}
