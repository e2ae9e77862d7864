// Asks the server for what is shown, again and again while somebody looks.

// In milliseconds.
const EVERY = 5000;
const PATIENCE = 10000;
const LONGEST = 60000;

// What is asked for lies below the page, with or without a slash at its end,
// and wherever a proxy has put it.
function addressOf(name) {
  const address = new URL(location.href);
  address.pathname = `${address.pathname.replace(/\/+$/, '')}/${name}`;
  address.search = '';
  address.hash = '';
  return address;
}

let etag = null;

// With `if-none-match` of our own the browser's cache keeps out of it: what an
// answer says of its age is what the server says now.
async function get(name) {
  const headers = name === 'data' && etag !== null ? { 'if-none-match': etag } : {};
  return fetch(addressOf(name), {
    headers,
    cache: 'no-store',
    signal: AbortSignal.timeout(PATIENCE),
  });
}

// What there is to know: `model` is there where it is new.
async function asked() {
  let response;
  try {
    response = await get('data');
    if (response.status === 304) {
      return ageOf(response);
    }
    const body = await response.json();
    if (response.ok) {
      const model = modelOf(body.result);
      etag = response.headers.get('etag');
      return { ...ageOf(response), model };
    }
    const wait = 1000 * (Number(response.headers.get('retry-after')) || 0);
    const { name, msg } = body.result;
    if (name === 'NotReady') {
      // What comes next is new, though it may be what was there before.
      etag = null;
      return { what: 'not-ready', message: msg, wait, model: modelOfChains(await chainIds()) };
    }
    return { what: 'refused', message: `${response.status} ${name}, ${msg}`, wait };
  } catch (error) {
    const isAnswer =
      response !== undefined && error.name !== 'TimeoutError' && error.name !== 'AbortError';
    return isAnswer
      ? {
          what: 'refused',
          message: `${response.status}, which this page does not understand; try to load it again`,
        }
      : { what: 'silent' };
  }
}

function ageOf(response) {
  const isOld = response.headers.get('warning')?.startsWith('110') ?? false;
  return isOld ? { what: 'old', age: Number(response.headers.get('age')) } : { what: 'good' };
}

async function chainIds() {
  const response = await get('chains');
  return response.ok ? (await response.json()).result : [];
}

let timer = 0;
let isAsking = false;

// A page that nobody looks at asks for nothing, and begins again at once when
// somebody does.
async function goOn() {
  clearTimeout(timer);
  if (isAsking || document.visibilityState !== 'visible') {
    return;
  }
  isAsking = true;
  let wait = EVERY;
  try {
    const answer = await asked();
    wait = Math.min(Math.max(EVERY, answer.wait ?? 0), LONGEST);
    take(answer);
  } finally {
    isAsking = false;
    timer = setTimeout(goOn, wait);
  }
}

document.addEventListener('visibilitychange', goOn);
addEventListener('online', goOn);
