// Keeps the page up to date while it is visible: follows the changes of the data as events, or
// polls without a stream, and after an error, whose response has details.

// The interval between requests, in milliseconds, and the maximum wait that a server can set.
const INTERVAL = 5000;
const MAX_WAIT = 60000;

// The time until a stream is tried again after one that could not be opened, or was lost.
const RETRY = 60000;

let timer = 0;
let isUpdating = false;
let isFailing = false;
let noStreamUntil = 0;
let stream = new AbortController();

// A hidden page sends no requests and has no stream, since a browser has few connections to a
// server. It resumes when it becomes visible.
async function update() {
  clearTimeout(timer);
  if (isUpdating || document.visibilityState !== 'visible') {
    return;
  }
  isUpdating = true;
  let wait = INTERVAL;
  try {
    const isStreaming = !isFailing && Date.now() >= noStreamUntil;
    wait = await (isStreaming ? follow() : poll());
  } finally {
    isUpdating = false;
    timer = setTimeout(update, wait);
  }
}

// Takes the response to a request. Returns the time to wait for the next one.
async function poll() {
  const result = { ...(await request()), ...(await requestTelemetry()) };
  isFailing = !['good', 'old'].includes(result.status);
  take(result);
  return Math.min(Math.max(INTERVAL, result.wait ?? 0), MAX_WAIT);
}

// Takes changes until there are no more. Returns the time to wait for the next request. Events
// have neither the telemetry nor the sources: these are requested after an event or a comment,
// and do not delay changes.
async function follow() {
  stream = new AbortController();
  const { signal } = stream;
  let last = {};
  let others = {};
  let requested = 0;
  const requestOthers = async () => {
    requested = Infinity;
    const result = await requestTelemetry();
    requested = Date.now();
    if (signal.aborted) {
      // The telemetry is not shown, so it must be loaded again.
      etags.delete('telemetry');
      return;
    }
    others = result;
    take({ ...last, ...others, model: undefined });
  };
  for await (const change of changes(stream)) {
    switch (change.status) {
      case 'ended':
        return change.wait;
      case 'failed':
        isFailing = true;
        return 0;
    }
    last = change;
    take({ ...change, ...others });
    if (Date.now() - requested >= INTERVAL) {
      requestOthers();
    }
  }
  if (document.visibilityState === 'visible') {
    noStreamUntil = Date.now() + RETRY;
  }
  return 0;
}

document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') {
    update();
  } else {
    stream.abort();
  }
});
addEventListener('online', update);
