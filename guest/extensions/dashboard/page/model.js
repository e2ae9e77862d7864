// Converts the server's responses to the model of the page.

// Descriptions of the kinds of workers.
const MEANINGS = {
  Client: 'light clients that are kept up to date',
  Channel: 'channels whose handshake is completed',
  Connection: 'connections whose handshake is completed',
  Packet: 'channels whose packets are relayed',
  Wallet: 'wallets whose balance is watched',
  CrossChainQuery: 'queries from one chain to another',
};

const inOrder = new Intl.Collator('en', { numeric: true }).compare;

// Formats a count in groups of three digits.
const number = (count) => count.toLocaleString('en');

function counted(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

// Creates the model from the result of `/data`.
function modelOf(data) {
  const chains = data.chains.map((chain) => ({
    ...chain,
    workers: 0,
    blocked: 0,
    counts: new Map(),
    others: [],
  }));
  const names = data.workers.map((group) => group.kind);
  const kinds = tally(data.workers.map((group) => [group.kind, group.ids.length]));
  const rows = data.workers.flatMap((group) =>
    group.ids.map((id, place) => {
      const [from, to] = [chains[group.from[place]], chains[group.to[place]]];
      const isBlocked = isDown(from) || isDown(to);
      for (const chain of new Set([from, to])) {
        if (chain !== undefined) {
          chain.workers += 1;
          chain.blocked += isBlocked ? 1 : 0;
          chain.counts.set(group.kind, (chain.counts.get(group.kind) ?? 0) + 1);
        }
      }
      return row(
        group.kind,
        id,
        from,
        to,
        data.names[group.object[place]],
        data.names[group.detail[place]],
      );
    }),
  );
  rows.sort((one, other) => other.isBlocked - one.isBlocked);
  const pairs = data.pairs.map((pair) => pairOf(pair, chains, names));
  pairs.sort((one, other) => inOrder(one.a, other.a) || inOrder(one.b, other.b));
  return modelWith({ isKnown: true, version: data.version, chains, kinds, rows, pairs });
}

// Creates the model from the result of `/chains` while the state is not known. The list
// is empty if the chains are not known either.
function modelOfChains(ids) {
  const chains = ids.map((id) => ({
    id,
    configured: true,
    connected: null,
    workers: 0,
    blocked: 0,
    counts: new Map(),
    others: [],
  }));
  return modelWith({ isKnown: false, version: [], chains, kinds: new Map(), rows: [], pairs: [] });
}

function modelWith(parts) {
  parts.chains.sort((one, other) => inOrder(one.id, other.id));
  return { ...parts, chainOf: new Map(parts.chains.map((chain) => [chain.id, chain])) };
}

// Creates a worker's row. A worker is blocked if a chain of it is not connected.
function row(kind, id, from, to, object = '', detail = '') {
  const isBlocked = isDown(from) || isDown(to);
  const state = isBlocked ? 'blocked' : '–';
  const texts = [state, kind, from?.id ?? '', to?.id ?? '', object, detail, String(id)];
  return {
    texts,
    isBlocked,
    kind,
    from: from?.id,
    to: to?.id,
    words: texts.join(' ').toLowerCase(),
  };
}

const isDown = (chain) => chain?.connected === false;

function pairOf({ a, b, there, back }, chains, kinds) {
  const isSwapped = inOrder(chains[a].id, chains[b].id) > 0;
  const [first, second] = isSwapped ? [chains[b], chains[a]] : [chains[a], chains[b]];
  first.others.push(second.id);
  second.others.push(first.id);
  const named = (counts) => tally(counts.map(([place, count]) => [kinds[place], count]));
  const [to, fro] = (isSwapped ? [back, there] : [there, back]).map(named);
  return {
    key: keyOf(first.id, second.id),
    a: first.id,
    b: second.id,
    isDown: isDown(first) || isDown(second),
    there: to,
    back: fro,
    workers: total(to) + total(fro),
    // Determines the width of the line.
    channels: sum(['Packet', 'Channel'].flatMap((kind) => [to.get(kind) ?? 0, fro.get(kind) ?? 0])),
    flow: ['none', 'one', 'both'][[to, fro].filter((way) => way.has('Packet')).length],
  };
}

// Identifiers may contain any characters, so that a separator would not be unique.
function keyOf(one, other) {
  return JSON.stringify([one, other].sort());
}

// Sums the counts of each name, which may occur more than once.
function tally(counts) {
  const all = new Map();
  for (const [name, count] of counts) {
    all.set(name, (all.get(name) ?? 0) + count);
  }
  return all;
}

const sum = (counts) => counts.reduce((all, count) => all + count, 0);
const total = (counts) => sum([...counts.values()]);

// Formats counts as "Client 2, Packet 12", without line breaks between kind and number.
function listed(counts) {
  return [...counts].map(([kind, count]) => `${kind}\u00a0${number(count)}`).join(', ');
}

function stateOf(chain) {
  if (chain.connected === null) {
    return 'configured';
  }
  const connected = chain.connected ? 'connected' : 'not connected';
  switch (chain.configured) {
    case true:
      return `configured, ${connected}`;
    case false:
      return `not configured, ${connected}`;
    default:
      return connected;
  }
}

// Returns whether a chain has a problem: its level, or nothing.
function levelOf(chain) {
  if (isDown(chain)) {
    return 'bad';
  }
  return chain.configured === false ? 'warn' : '';
}

function briefStateOf(chain) {
  if (isDown(chain)) {
    return 'not connected';
  }
  return chain.configured === false ? 'not configured' : stateOf(chain).replace('configured, ', '');
}
