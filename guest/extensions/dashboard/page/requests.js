// The requests for the data of the page, and their results.

// The maximum time of a request, in milliseconds.
const TIMEOUT = 10000;

// Returns the address of a resource below the page. The page's path may end with a slash
// or not, and a proxy may have changed it.
function addressOf(name) {
  const address = new URL(location.href);
  address.pathname = `${address.pathname.replace(/\/+$/, '')}/${name}`;
  address.search = '';
  address.hash = '';
  return address;
}

// The validators of the last responses, by the name of the resource.
const etags = new Map();

// The page sends `if-none-match` itself and bypasses the browser's cache, so that the age
// in a response is the server's current one.
async function get(name) {
  const etag = etags.get(name);
  const headers = etag === undefined ? {} : { 'if-none-match': etag };
  return fetch(addressOf(name), {
    headers,
    cache: 'no-store',
    signal: AbortSignal.timeout(TIMEOUT),
  });
}

// Requests the data. The result has a `model` only if it is new.
async function request() {
  let response;
  try {
    response = await get('data');
    const sources = sourcesOf(response);
    if (response.status === 304) {
      return { ...ageOf(response), sources };
    }
    const body = await response.json();
    if (response.ok) {
      const model = modelOf(body.result);
      etags.set('data', response.headers.get('etag'));
      return { ...ageOf(response), sources, model };
    }
    const wait = 1000 * (Number(response.headers.get('retry-after')) || 0);
    const { name, msg } = body.result;
    if (name === 'NotReady') {
      // The next state must be loaded, even if it equals the one before.
      etags.delete('data');
      const model = modelOfChains(await chainIds());
      return { status: 'not-ready', message: msg, wait, sources, model };
    }
    return { status: 'refused', message: `${response.status} ${name}, ${msg}`, wait };
  } catch (error) {
    const isResponse =
      response !== undefined && error.name !== 'TimeoutError' && error.name !== 'AbortError';
    return isResponse
      ? {
          status: 'refused',
          message: `${response.status}, unexpected; reload this page`,
        }
      : { status: 'silent' };
  }
}

function ageOf(response) {
  const isOld = response.headers.get('warning')?.startsWith('110') ?? false;
  return isOld ? { status: 'old', age: Number(response.headers.get('age')) } : { status: 'good' };
}

// Returns the sources of the state, from a list of structured fields (RFC 9651) such as
// `sample` or `state-file;location="state.json";failing-since=@1764000000`.
function sourcesOf(response) {
  const value = response.headers.get('x-relayer-source') ?? '';
  const item = /([a-z][a-z0-9-]*)((?:;[a-z-]+=(?:"(?:\\.|[^"\\])*"|@-?\d+))*)/g;
  return [...value.matchAll(item)].map(([, kind, parameters]) => {
    const location = /;location="((?:\\.|[^"\\])*)"/.exec(parameters)?.[1] ?? '';
    const failing = /;failing-since=@(-?\d+)$/.exec(parameters)?.[1];
    return {
      kind,
      location: location.replace(/\\(.)/g, '$1'),
      failing: failing === undefined ? null : new Date(1000 * failing),
    };
  });
}

// Requests the telemetry, which is null if it is not known, and the sources of the state. The
// result has the telemetry only if it is new, and nothing if the server does not respond: that
// is a problem of the data, too.
async function requestTelemetry() {
  try {
    const response = await get('telemetry');
    const { age = null } = ageOf(response);
    const sources = sourcesOf(response);
    if (response.status === 304) {
      return { telemetryAge: age, sources };
    }
    const { result } = await response.json();
    if (response.ok) {
      etags.set('telemetry', response.headers.get('etag'));
      return { telemetry: result, telemetryAge: age, sources };
    }
  } catch {
    // As above.
  }
  return {};
}

async function chainIds() {
  const response = await get('chains');
  return response.ok ? (await response.json()).result : [];
}
