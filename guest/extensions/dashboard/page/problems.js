// The problems of the relayer and of its data, worst first.
//
// A check takes the facts: the `model`, which is null before the first response, the last
// `result` of a request or an event, the time at which the state was last `confirmed`, the
// `sources`, and the `telemetry`, which is null if it is not read.
// It returns problems:
//
//   key     the identity of the problem, which is the same in each refresh
//   level   `bad` or `warn`
//   brief   the problem in a few words, for the status at the top
//   text    the problem in a sentence
//   chains  the chains with the problem, each linked to its workers
//   link    a link to the rows with the problem: its text, the view and the element
//
// Problems of one level are shown in the order of the checks.
const CHECKS = [
  serverProblems,
  stateProblems,
  chainProblems,
  packetProblems,
  walletProblems,
  workerProblems,
  sourceProblems,
  telemetryProblems,
  unconfiguredProblems,
  sampleProblems,
];

const LEVELS = ['bad', 'warn'];

function problemsOf(facts) {
  const problems = CHECKS.flatMap((check) => check(facts));
  return problems.sort((one, other) => LEVELS.indexOf(one.level) - LEVELS.indexOf(other.level));
}

function serverProblems({ result, confirmed }) {
  const key = result.status;
  const until =
    confirmed === null ? 'Retrying.' : `This is the state at ${clock(confirmed)}; retrying.`;
  switch (key) {
    case 'refused': {
      const text = `The server responded: ${result.message}. ${until}`;
      return [{ key, level: 'bad', brief: 'Outdated', text }];
    }
    case 'silent': {
      const text = `The server does not respond. ${until}`;
      return [{ key, level: 'bad', brief: 'No response', text }];
    }
    default:
      return [];
  }
}

function stateProblems({ result }) {
  const key = result.status;
  switch (key) {
    case 'not-ready': {
      const text = `The state of the relayer is not known: ${result.message.replace(/\.$/, '')}.`;
      return [{ key, level: 'bad', brief: 'State not known', text }];
    }
    case 'old': {
      const since = `since ${moment(new Date(Date.now() - 1000 * result.age))}`;
      const text =
        `The relayer has not responded ${since}, for ${span(result.age)}. ` +
        'This is its last known state.';
      return [{ key, level: 'bad', brief: `Stale ${since}`, text }];
    }
    default:
      return [];
  }
}

function chainProblems({ model }) {
  const chains = knownChains(model).filter((chain) => chain.configured !== false);
  const down = chains.filter((chain) => !chain.connected);
  if (down.length === 0) {
    return [];
  }
  const of = `${number(down.length)} of ${counted(chains.length, 'chain')}`;
  const text = `${of} ${down.length === 1 ? 'is' : 'are'} not connected.`;
  return [
    {
      key: 'chains',
      level: 'bad',
      brief: `${of} not connected`,
      text,
      chains: down,
      link: { text: 'Show the chains', view: ALL, target: 'list' },
    },
  ];
}

function workerProblems({ model }) {
  const blocked = model?.rows.filter((row) => row.isBlocked).length ?? 0;
  if (blocked === 0) {
    return [];
  }
  const of = `${number(blocked)} of ${counted(model.rows.length, 'worker')}`;
  return [
    {
      key: 'workers',
      level: 'bad',
      brief: `${of} blocked`,
      text: `${of} ${blocked === 1 ? 'is' : 'are'} blocked: a chain is not connected.`,
      link: { text: 'Show the workers', view: { ...ALL, only: 'problems' }, target: 'workers' },
    },
  ];
}

// A relayer that does not respond is a problem of the state already.
function sourceProblems({ result, sources }) {
  const isKnown = ({ kind }) =>
    ['old', 'not-ready'].includes(result.status) && ['upstream', 'relayer'].includes(kind);
  return sources
    .filter((source) => source.failing !== null && !isKnown(source))
    .map(({ kind, location, failing }) => ({
      key: `source ${kind} ${location}`,
      level: 'warn',
      brief: 'Source fails',
      text:
        `The source ${`${kind} ${location}`.trim()} has failed since ${moment(failing)}. ` +
        'Its previous content stays in effect.',
    }));
}

function unconfiguredProblems({ model }) {
  const chains = knownChains(model).filter((chain) => chain.configured === false);
  if (chains.length === 0) {
    return [];
  }
  const brief = `${counted(chains.length, 'chain')} not configured`;
  const text =
    chains.length === 1
      ? '1 chain is not configured, but connected or named by workers.'
      : `${number(chains.length)} chains are not configured, but connected or named by workers.`;
  return [{ key: 'unconfigured', level: 'warn', brief, text, chains }];
}

function sampleProblems({ sources }) {
  const text =
    'This is the built-in sample, not a relayer. Start the server with a source of the state, ' +
    'such as --upstream.';
  return isSample(sources) ? [{ key: 'sample', level: 'warn', brief: 'Sample', text }] : [];
}

const knownChains = (model) => (model?.isKnown ? model.chains : []);
const isSample = (sources) => sources.some((source) => source.kind === 'sample');

const clock = (date) => date.toLocaleTimeString();

// Returns the time of a date, with the day if it was not today.
function moment(date) {
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? clock(date) : date.toLocaleString();
}

function span(seconds) {
  if (seconds < 120) {
    return `${seconds} s`;
  }
  const minutes = Math.floor(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`;
}
