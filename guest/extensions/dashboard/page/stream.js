// The changes of the data as events, which the server sends when there is one.

// The maximum time without an event or a comment, in milliseconds: the server sends a comment
// after 20 s. A connection can be lost without notice.
const SILENCE = 45000;

// Yields the results of events, as of requests, until the stream ends or is aborted. The last
// one has the status `failed` if there is an error, or `ended` if the server ends the stream,
// with the time after which it is opened again.
async function* changes(stream) {
  let timer = setTimeout(() => stream.abort(), TIMEOUT);
  // The time since which the relayer has not confirmed the state; null if it does.
  let since = null;
  const etag = etags.get('data');
  const last = etag === undefined ? {} : { 'last-event-id': etag };
  try {
    const response = await fetch(addressOf('data'), {
      headers: { accept: 'text/event-stream', ...last },
      cache: 'no-store',
      signal: stream.signal,
    });
    const type = response.headers.get('content-type') ?? '';
    if (!response.ok || !type.startsWith('text/event-stream')) {
      return;
    }
    for await (const event of eventsOf(response)) {
      clearTimeout(timer);
      timer = setTimeout(() => stream.abort(), SILENCE);
      const result = {};
      switch (event.event) {
        case 'change':
          result.model = modelOf(JSON.parse(event.data).result);
          etags.set('data', event.id);
          break;
        case 'stale':
          since = Date.now() - 1000 * JSON.parse(event.data).age;
          break;
        case 'confirmed':
          since = null;
          break;
        case 'failed':
          if (event.id === '') {
            etags.delete('data');
          }
          yield { status: 'failed' };
          return;
      }
      if (event.retry !== undefined) {
        yield { status: 'ended', wait: Number(event.retry) };
        return;
      }
      const age = Math.round((Date.now() - since) / 1000);
      yield { ...result, ...(since === null ? { status: 'good' } : { status: 'old', age }) };
    }
  } catch {
    // The next request shows whether the server responds.
  } finally {
    clearTimeout(timer);
    stream.abort();
  }
}

// Yields the events of a stream as objects of their fields; one without any for a comment.
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const blocks = `${text}${part.value}`.split('\n\n');
    text = blocks.pop();
    yield* blocks.map(eventOf);
  }
}

function eventOf(block) {
  const event = {};
  for (const line of block.split('\n').filter((line) => !line.startsWith(':'))) {
    const at = line.indexOf(':');
    const name = line.slice(0, at);
    const value = line.slice(at + 1).replace(/^ /, '');
    event[name] = event[name] === undefined ? value : `${event[name]}\n${value}`;
  }
  return event;
}
