// The page of a report: every section is drawn from the data.

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

function start() {
  themeButton();
  const data = readData('problem');
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
  pairChooser();
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
