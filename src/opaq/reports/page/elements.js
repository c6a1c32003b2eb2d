// Elements, numbers and names. Text from the data only ever becomes text nodes and attributes' values, never markup.

const SVG = 'http://www.w3.org/2000/svg';

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'text') node.textContent = value;
    else if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const el = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => build(document.createElementNS(SVG, tag), attributes, children);
const part = (section, name) => document.querySelector(`#${section} [data-part="${name}"]`);

/** Calls draw(width) now and whenever the element's width changes, also for print. */
function onWidth(host, draw) {
  let last = 0;
  const redraw = () => {
    const width = Math.floor(host.clientWidth);
    if (width > 0 && width !== last) draw((last = width));
  };
  redraw();
  new ResizeObserver(redraw).observe(host);
}

const minus = (text) => text.replace('-', '−');

/** 9.2e-6 as people write it: 9.2 × 10⁻⁶. */
function powerOfTen(value) {
  const [digits, exponent] = value.toExponential(1).split('e');
  const raised = Array.from(String(Number(exponent)), (sign) => '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'['-0123456789'.indexOf(sign)]);
  return `${minus(digits)} × 10${raised.join('')}`;
}

/** A text as a sentence: a capital first, a full stop last. */
function sentence(text) {
  const words = visible(text).trim();
  if (!words) return '';
  return `${words[0].toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? '' : '.'}`;
}

const formats = new Map();

/** Making a format takes longer than using it a thousand times. */
function formatOf(digits) {
  const made = () => new Intl.NumberFormat('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  if (!formats.has(digits)) formats.set(digits, made());
  return formats.get(digits);
}

function number(value, digits = 3) {
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  if (Math.abs(value) < 5e-7) return '0';
  if (Math.abs(value) < 0.5 * 10 ** -digits) return powerOfTen(value);
  if (Math.abs(value) >= 1e6) return minus(value.toPrecision(4));
  return minus(formatOf(digits).format(value));
}

/** Both ends of an interval, or the one number that both round to. */
function rangeWords(lower, upper, write) {
  const [low, high] = [write(lower), write(upper)];
  return low === high ? low : `${low} to ${high}`;
}

function percent(share, digits = 1) {
  if (share < 1e-12 || share > 1 - 1e-12) return share < 0.5 ? '0%' : '100%'; // the rest is rounding
  if (share > 0 && share < 0.5 * 10 ** -(digits + 2)) return `<${10 ** -digits}%`;
  if (share < 1 && share > 1 - 0.5 * 10 ** -(digits + 2)) return `>${100 - 10 ** -digits}%`;
  return `${(100 * share).toFixed(digits)}%`;
}

/** A share without digits it does not need: 70%, 33.3%. */
const neat = (share) => percent(share).replace('.0%', '%');

const count = (value, one, many) => `${value.toLocaleString('en')} ${value === 1 ? one : many || `${one}s`}`;

/** A name with its control characters and marks of direction made visible. */
function visible(name) {
  return String(name).replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (sign) => {
    if (sign === '\n') return '⏎';
    return `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

function shortened(name, most) {
  const signs = Array.from(visible(name));
  if (signs.length <= most) return signs.join('');
  const head = Math.floor(most / 2); // names often differ in their last characters
  return `${signs.slice(0, head).join('')}…${signs.slice(signs.length - (most - 1 - head)).join('')}`;
}

/** A name in running text: apart from the direction of what surrounds it, cut where it is too long. */
function named(name, most = 48) {
  const text = shortened(name, most);
  return el('bdi', { class: 'name', text, title: text === String(name) ? null : visible(name) });
}

const swatch = (kind, index) => el('span', { class: `swatch ${kind}`, 'data-tint': index, 'aria-hidden': 'true' });
const arrayOf = (value) => (Array.isArray(value) ? value : []);
