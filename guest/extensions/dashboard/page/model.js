// What the server answers, as the rest of the page has it.

// What the workers of a kind do.
const MEANINGS = {
  Client: 'light clients that are kept up to date',
  Channel: 'channels whose handshake is completed',
  Connection: 'connections whose handshake is completed',
  Packet: 'channels whose packets are relayed',
  Wallet: 'wallets whose balance is watched',
  CrossChainQuery: 'queries from one chain to another',
};

const inOrder = new Intl.Collator('en', { numeric: true }).compare;

// Counts are written as they are everywhere, in groups of three digits.
const number = (count) => count.toLocaleString('en');

function counted(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

// Of `/data`.
function modelOf(data) {
  const chains = data.chains.map((chain) => ({
    ...chain,
    workers: 0,
    counts: new Map(),
    others: [],
  }));
  const names = data.workers.map((group) => group.kind);
  const kinds = tally(data.workers.map((group) => [group.kind, group.ids.length]));
  const rows = data.workers.flatMap((group) =>
    group.ids.map((id, place) => {
      const [from, to] = [chains[group.from[place]], chains[group.to[place]]];
      for (const chain of new Set([from, to])) {
        if (chain !== undefined) {
          chain.workers += 1;
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
  const pairs = data.pairs.map((pair) => pairOf(pair, chains, names));
  pairs.sort((one, other) => inOrder(one.a, other.a) || inOrder(one.b, other.b));
  return modelWith({ isKnown: true, version: data.version, chains, kinds, rows, pairs });
}

// Of `/chains`, where nothing else is known; of nothing, where those are not.
function modelOfChains(ids) {
  const chains = ids.map((id) => ({
    id,
    configured: true,
    connected: null,
    workers: 0,
    counts: new Map(),
    others: [],
  }));
  return modelWith({ isKnown: false, version: [], chains, kinds: new Map(), rows: [], pairs: [] });
}

function modelWith(parts) {
  parts.chains.sort((one, other) => inOrder(one.id, other.id));
  return { ...parts, chainOf: new Map(parts.chains.map((chain) => [chain.id, chain])) };
}

function row(kind, id, from, to, object = '', detail = '') {
  const texts = [kind, from?.id ?? '', to?.id ?? '', object, detail, String(id)];
  return { texts, kind, from: from?.id, to: to?.id, words: texts.join(' ').toLowerCase() };
}

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
    there: to,
    back: fro,
    workers: total(to) + total(fro),
    // What its line's width says.
    channels: sum(['Packet', 'Channel'].flatMap((kind) => [to.get(kind) ?? 0, fro.get(kind) ?? 0])),
    flow: ['none', 'one', 'both'][[to, fro].filter((way) => way.has('Packet')).length],
  };
}

// Identifiers may have any letters in them.
function keyOf(one, other) {
  return JSON.stringify([one, other].sort());
}

// How many there are of each name, which may come more than once.
function tally(counts) {
  const all = new Map();
  for (const [name, count] of counts) {
    all.set(name, (all.get(name) ?? 0) + count);
  }
  return all;
}

const sum = (counts) => counts.reduce((all, count) => all + count, 0);
const total = (counts) => sum([...counts.values()]);

// "Client 2, Packet 12": no line breaks between a kind and its number.
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
