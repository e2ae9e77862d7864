// The freshness of the data: in a few words at the top, and in a sentence if something
// is wrong.

// The last announced mood: screen readers announce only changes.
let lastMood = '';

function describe(mood, brief, sentence = '') {
  set(byId('freshness'), { 'data-mood': mood });
  setText(byId('freshness-text'), brief);
  byId('notice').hidden = sentence === '';
  set(byId('notice'), { 'data-mood': mood, class: 'notice' });
  setText(byId('notice'), sentence);
  if (mood !== lastMood) {
    // A good mood at the start is not announced.
    setText(
      byId('announcer'),
      lastMood === '' && mood === 'good' ? '' : sentence || 'Up to date again.',
    );
    lastMood = mood;
  }
}

const clock = (date) => date.toLocaleTimeString();

function describeFreshness(result, confirmed) {
  switch (result.status) {
    case 'good':
      describe('good', `Up to date, ${clock(confirmed)}`);
      break;
    case 'old':
      describe(
        'old',
        `${span(result.age)} old`,
        `The relayer does not respond. This is its state ${span(result.age)} ago.`,
      );
      break;
    case 'not-ready':
      describe(
        'not-ready',
        'Not known',
        `The state of the relayer is not known: ${result.message.replace(/\.$/, '')}.`,
      );
      break;
    case 'refused':
      describe(
        'refused',
        'Outdated',
        `The server responded: ${result.message}. ${asOf(confirmed)}`,
      );
      break;
    default:
      describe('silent', 'No response', `The server does not respond. ${asOf(confirmed)}`);
  }
}

function asOf(confirmed) {
  return confirmed === null
    ? 'Retrying.'
    : `This is the state at ${clock(confirmed)}; retrying.`;
}

function span(seconds) {
  return seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
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
