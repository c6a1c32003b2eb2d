// What every page does: it reads its data, says plainly what cannot be shown, and lets the theme be chosen.

const KNOWN_VERSION = 1;

function complain(text) {
  const fault = document.getElementById('fault');
  fault.textContent = text;
  fault.hidden = false;
}

/** The data of the page, or null after saying why they cannot be shown. kind: "problem" or "study". */
function readData(kind) {
  let data;
  try {
    data = JSON.parse(document.getElementById('opaq-report').textContent);
  } catch (error) {
    complain(
      `The data inside this file cannot be read, so there are no pictures: ${error.message}. Make the report again.`,
    );
    return null;
  }
  if (data?.format !== 'opaq-report' || (data.kind === 'study') !== (kind === 'study')) {
    complain('This file does not hold the data of an opaq report.');
    return null;
  }
  if (data.version !== KNOWN_VERSION) {
    complain(
      `This report has data of version ${data.version}; this page knows version ${KNOWN_VERSION}. Make the report again with one version of opaq.`,
    );
    return null;
  }
  return data;
}

/** One part that fails does not take the others with it. */
function attempt(section, draw) {
  const host = document.getElementById(section);
  if (host === null) return null;
  try {
    return draw();
  } catch (error) {
    host.append(el('p', { class: 'fault', text: `This part could not be drawn: ${error.message}` }));
    console.error(error);
    return null;
  }
}

function themeButton() {
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const themes = dark ? ['auto', 'light', 'dark'] : ['auto', 'dark', 'light']; // so that the first click is seen
  const button = document.getElementById('theme');
  const root = document.documentElement;
  const label = () => (button.textContent = `Theme: ${root.dataset.theme ?? 'auto'}`);
  button.addEventListener('click', () => {
    const next = themes[(themes.indexOf(root.dataset.theme ?? 'auto') + 1) % themes.length];
    if (next === 'auto') delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      localStorage.setItem('opaq-theme', next);
    } catch {
      /* then the choice lasts as long as the page */
    }
    label();
  });
  label();
}

/** The page of another secret or observer, which this file holds too, is shown in a frame. */
function pairChooser() {
  const select = document.getElementById('pair');
  if (select === null) return;
  const pages = JSON.parse(document.getElementById('opaq-pairs').textContent);
  const frame = document.getElementById('pair-page');
  select.addEventListener('change', () => {
    const other = pages[select.selectedIndex];
    document.querySelector('.frame').hidden = other !== null;
    frame.hidden = other === null;
    if (other !== null) frame.srcdoc = other;
  });
}

/** The link of the section in view is marked. */
function followScroll() {
  const links = new Map([...document.querySelectorAll('.contents a')].map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        for (const link of links.values()) link.removeAttribute('aria-current');
        links.get(entry.target.id)?.setAttribute('aria-current', 'true');
      }
    },
    { rootMargin: '-15% 0px -75% 0px' },
  );
  for (const id of links.keys()) watch.observe(document.getElementById(id));
}
