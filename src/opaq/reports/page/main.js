// Reads the data, draws every section, and says plainly what cannot be shown.

const KNOWN_VERSION = 1;

function complain(text) {
  const fault = document.getElementById('fault');
  fault.textContent = text;
  fault.hidden = false;
}

function readData() {
  let data;
  try {
    data = JSON.parse(document.getElementById('opaq-report').textContent);
  } catch (error) {
    complain(
      `The data inside this file cannot be read, so there are no pictures: ${error.message}. Make the report again.`,
    );
    return null;
  }
  if (data?.format !== 'opaq-report' || data.kind === 'study') {
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
  const themes = ['auto', 'light', 'dark'];
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

function copyButtons(data) {
  const texts = new Map([
    ['problem-text', data.problem_text],
    ['policy-text', data.policy_text],
  ]);
  for (const button of document.querySelectorAll('[data-copies]')) {
    button.addEventListener('click', async () => {
      const id = button.dataset.copies;
      const done = await copied(texts.get(id), document.getElementById(id));
      part('files', 'copied').textContent = done ? 'Copied.' : 'Selected; press Ctrl+C to copy.';
      button.textContent = done ? 'Copied' : 'Selected';
      setTimeout(() => (button.textContent = 'Copy'), 2000);
    });
  }
}

async function copied(text, listing) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(listing);
    return document.execCommand('copy');
  }
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

function start() {
  themeButton();
  const data = readData();
  if (data === null) {
    document.documentElement.classList.add('broken');
    return;
  }
  const plan = new Plan(data);
  attempt('model', () => drawModel(data, plan));
  const replay = attempt('replay', () => new Replay(part('replay', 'player'), data, plan));
  attempt('outcomes', () => drawOutcomes(data));
  attempt('decline', () => drawDecline(data));
  attempt('search', () => drawSearch(data));
  attempt('classes', () => drawClasses(data));
  attempt('certificate', () => drawCertificate(data));
  attempt('policy', () => drawPolicy(data, plan));
  copyButtons(data);
  followScroll();
  if (replay === null) return;
  if (replay.follow(location.hash)) document.getElementById('replay').scrollIntoView();
  addEventListener('hashchange', () => replay.follow(location.hash));
  window.opaqReport = {
    get run() {
      return replay.run;
    },
    get time() {
      return replay.time;
    },
    select: (run) => replay.select(run),
    go: (time) => replay.go(time),
  };
}

start();
