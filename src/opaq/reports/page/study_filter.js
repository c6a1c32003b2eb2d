// The filter of the table: `horizon = 8 opacity > 0.9 converged` keeps the points that meet every term.

const TERM = /("[^"]*"|[^\s<>=!:≤≥"]+)\s*(<=|>=|!=|≤|≥|=|<|>|:)\s*("[^"]*"|[^\s"]+)|"[^"]*"|\S+/gu;
const UNFINISHED = /("[^"]*"|[^\s<>=!:≤≥"]+)?\s*(<=|>=|!=|≤|≥|=|<|>|:)\s*$/u;
const COMPARE = {
  '<': (one, other) => one < other,
  '>': (one, other) => one > other,
  '<=': (one, other) => one <= other,
  '>=': (one, other) => one >= other,
  '≤': (one, other) => one <= other,
  '≥': (one, other) => one >= other,
};

const unquoted = (text) => text.replace(/^"(.*)"$/su, '$1');
const plainName = (text) => text.toLowerCase().replaceAll(' ', '_');

/** A column by its key, its title, or the end of its path where only one ends so. */
function columnNamed(name, columns) {
  const wanted = plainName(name);
  const named = columns.find((column) => [column.key, column.title].some((text) => plainName(text) === wanted));
  const ending = columns.filter((column) => plainName(column.key).endsWith(`.${wanted}`));
  return named ?? (ending.length === 1 ? ending[0] : null);
}

/** Whether a figure reads like a number: as exact as it is written. Parameters are compared as they are. */
function reads(value, text, column) {
  if (column.parameter) return value === Number(text) || Number(value.toPrecision(7)) === Number(text);
  const digits = /\.(\d+)$/.exec(text)?.[1].length ?? 0;
  return Math.abs(value - Number(text)) <= 0.5 * 10 ** -digits + 1e-12;
}

function equals(column, text) {
  const wanted = text.toLowerCase();
  const isNumber = text.trim() !== '' && Number.isFinite(Number(text));
  return (point) => {
    const value = column.value(point);
    if (typeof value === 'number' && isNumber) return reads(value, text, column);
    return [String(value ?? ''), column.words(point)].some((words) => words.toLowerCase() === wanted);
  };
}

function termOf(match, columns) {
  const [whole, name, sign, stated] = match;
  if (sign === undefined) {
    const wanted = unquoted(whole).toLowerCase();
    return { test: (point, text) => text.includes(wanted) };
  }
  const column = columnNamed(unquoted(name), columns);
  if (column === null) return { fault: `There is no column “${unquoted(name)}”.` };
  const text = unquoted(stated);
  if (sign === '=') return { test: equals(column, text) };
  if (sign === '!=') {
    const same = equals(column, text);
    return { test: (point) => !same(point) };
  }
  if (sign === ':') return { test: (point) => column.words(point).toLowerCase().includes(text.toLowerCase()) };
  if (!Number.isFinite(Number(text))) return { fault: `“${text}” is no number, so nothing is less or more than it.` };
  return {
    test: (point) => {
      const value = column.value(point);
      return typeof value === 'number' && COMPARE[sign](value, Number(text));
    },
  };
}

/** {keeps(point, all its text in lower case), faults}: terms that make no sense keep everything. */
function filterOf(text, columns) {
  const unfinished = UNFINISHED.exec(text);
  const finished = unfinished === null ? text : text.slice(0, unfinished.index);
  const terms = [...finished.matchAll(TERM)].map((match) => termOf(match, columns));
  if (unfinished !== null) terms.push({ fault: `“${unfinished[0].trim()}” has no value yet.` });
  const tests = terms.flatMap((term) => (term.test ? [term.test] : []));
  return {
    keeps: (point, words) => tests.every((test) => test(point, words)),
    faults: terms.flatMap((term) => (term.fault ? [term.fault] : [])),
  };
}
