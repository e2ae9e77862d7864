// The top of the page: the status in a few words, and the problems in sentences.

// The maximum number of chains that are listed with a problem.
const MAX_LINKS = 8;

// The last announced problems: screen readers announce only changes.
let announced = null;

function drawStatus({ model, confirmed, sources }, problems) {
  const level = problems[0]?.level ?? 'good';
  set(byId('status'), { 'data-level': level });
  setText(byId('status-text'), problems[0]?.brief ?? 'No problems');
  setText(byId('checked'), confirmed === null ? '' : clock(confirmed));
  byId('sample').hidden = !isSample(sources);
  drawProblems(model, problems, level);
  announce(problems);
}

function drawProblems(model, problems, level) {
  set(byId('problems'), { 'data-level': level });
  byId('problems').hidden = false;
  setText(
    byId('problems-title'),
    problems.length > 0 ? counted(problems.length, 'problem') : 'No problems',
  );
  setText(byId('healthy'), problems.length > 0 || model === null ? '' : describeHealth(model));
  keep(byId('problem-list'), problems, (problem) => problem.key, makeProblem, drawProblem);
}

function describeHealth(model) {
  const count = model.chains.length;
  const chains = count === 1 ? 'the chain is' : `all ${number(count)} chains are`;
  return `The state is current${count === 0 ? '' : `, and ${chains} connected`}.`;
}

function makeProblem({ link }) {
  const text = html('p', {}, html('span'));
  if (link !== undefined) {
    text.append(' ', linkTo(link));
  }
  return html('li', {}, text, html('ul', { class: 'links' }));
}

function drawProblem(element, { level, text, chains = [], link }) {
  const [sentence, list] = element.children;
  set(element, { class: level });
  setText(sentence.firstChild, text);
  const worst = [...chains].sort(
    (one, other) => other.workers - one.workers || inOrder(one.id, other.id),
  );
  list.hidden = chains.length === 0;
  const links = worst.slice(0, MAX_LINKS).map(({ id, workers }) => ({
    text: id,
    view: { ...ALL, chain: id },
    target: workers > 0 ? 'workers' : 'chosen',
    count: number(workers),
    unit: workers === 1 ? 'worker' : 'workers',
  }));
  if (worst.length > MAX_LINKS) {
    const text = `${number(worst.length - MAX_LINKS)} more`;
    links.push({ text, view: ALL, target: 'list', count: '', unit: '' });
  }
  keep(
    list,
    links,
    (each) => `${each.target} ${each.view.chain}`,
    (each) => html('li', {}, linkTo(each), html('span'), html('span', { class: 'unit' })),
    (item, each) => {
      const [link, count, unit] = item.children;
      setText(link, each.text);
      setText(count, each.count);
      setText(unit, each.unit);
    },
  );
}

// Creates a link to rows. Its address has the view, so that it can be opened elsewhere.
function linkTo({ text, view, target }) {
  const element = html('a', { href: addressOfView(view) }, text);
  element.addEventListener('click', (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) {
      return;
    }
    event.preventDefault();
    change(view, { isStep: true });
    goTo(target);
  });
  return element;
}

function goTo(target) {
  byId(target).focus({ preventScroll: true });
  byId(target).scrollIntoView({ block: 'start' });
}

function announce(problems) {
  // The texts have ages, which change all the time.
  const identity = JSON.stringify(
    problems.map(({ key, chains = [] }) => [key, chains.map((chain) => chain.id)]),
  );
  if (identity === announced) {
    return;
  }
  const isStart = announced === null;
  announced = identity;
  const texts = problems.map((problem) => problem.text).join(' ');
  // No problems at the start are not announced.
  setText(byId('announcer'), texts || (isStart ? '' : 'No problems any more.'));
}

function drawSummary(model) {
  const parts = model.version.slice(0, 1).map(([name, version]) => `${name} ${version}`);
  if (model.isKnown || model.chains.length > 0) {
    parts.push(counted(model.chains.length, 'chain'));
  }
  if (model.isKnown) {
    const kinds = listed(model.kinds);
    parts.push(counted(model.rows.length, 'worker') + (kinds === '' ? '' : `: ${kinds}`));
  }
  // Lines break only between parts.
  keep(
    byId('summary'),
    parts.map((text, at) => ({ text, at })),
    ({ at }) => at,
    () => html('span'),
    (element, { text }) => setText(element, text),
  );
}
