// The relayer's telemetry: pending packets, balances, failed transactions and updates of
// clients. The section is hidden if the telemetry is not read.

// The age of a pending packet that is a problem, in milliseconds.
const MAX_AGE = 10 * 60 * 1000;

// The maximum number of rows of a table.
const MAX_ROWS = 100;

const ageOfPacket = (telemetry, packet) => telemetry.scraped - packet.since;

// The tables, with their elements, columns and rows. Numbers are at the right.
const TABLES = [
  {
    id: 'packets',
    rowsOf: ({ packets }) => packets,
    isBad: (row, telemetry) => ageOfPacket(telemetry, row) > MAX_AGE,
    texts: (row, telemetry) => [
      span(Math.round(ageOfPacket(telemetry, row) / 1000)),
      row.chain,
      row.counterparty,
      `${row.channel} ${row.port}`,
      amount(row.oldest),
      amount(row.backlog),
    ],
  },
  {
    id: 'wallets',
    rowsOf: ({ wallets }) => [...wallets].sort((one, other) => inOrder(one.chain, other.chain)),
    isBad: (row) => row.balance === 0,
    texts: (row) => [row.chain, amount(row.balance), row.denom, row.account],
  },
  {
    id: 'errors',
    rowsOf: ({ errors }) => [...errors].sort((one, other) => other.count - one.count),
    isBad: () => false,
    texts: (row) => [row.account, row.kind, row.description, amount(row.count)],
  },
  {
    id: 'clients',
    rowsOf: ({ clients }) => clients,
    isBad: () => false,
    texts: (row) => [row.from, row.to, row.client, amount(row.submitted), amount(row.skipped)],
  },
];

const amount = (value) => (value === null ? '' : value.toLocaleString());

function drawTelemetry(telemetry) {
  byId('telemetry').hidden = telemetry === null;
  if (telemetry === null) {
    return;
  }
  setText(byId('scraped'), `Read at ${clock(new Date(telemetry.scraped))}`);
  for (const { id, rowsOf, isBad, texts } of TABLES) {
    const rows = rowsOf(telemetry);
    const more = rows.length - MAX_ROWS;
    byId(`no-${id}`).hidden = rows.length > 0;
    byId(`${id}-table`).hidden = rows.length === 0;
    setText(byId(`more-${id}`), more > 0 ? `${number(more)} more` : '');
    keep(
      byId(`${id}-table`).tBodies[0],
      rows.slice(0, MAX_ROWS).map((row, at) => ({ row, at })),
      ({ at }) => at,
      () => makeTelemetryRow(byId(`${id}-table`)),
      (element, { row }) => {
        set(element, { class: isBad(row, telemetry) ? 'bad' : '' });
        texts(row, telemetry).forEach((text, at) => setText(element.children[at], text));
      },
    );
  }
}

function makeTelemetryRow(table) {
  const headers = [...table.tHead.rows[0].cells];
  return html('tr', {}, ...headers.map((header) => html('td', { class: header.className })));
}

function telemetryProblems({ telemetry, result }) {
  const age = result.telemetryAge ?? null;
  if (telemetry === null || age === null) {
    return [];
  }
  const since = moment(new Date(Date.now() - 1000 * age));
  const text = `The telemetry has not been readable since ${since}. This is the last known one.`;
  return [{ key: 'telemetry', level: 'warn', brief: 'Telemetry outdated', text }];
}

// Returns the channels whose oldest packet has been pending for too long.
function packetProblems({ telemetry }) {
  const old = telemetry?.packets.filter((packet) => ageOfPacket(telemetry, packet) > MAX_AGE) ?? [];
  if (old.length === 0) {
    return [];
  }
  const oldest = Math.max(...old.map((packet) => ageOfPacket(telemetry, packet)));
  const channels = `${counted(old.length, 'channel')} ${old.length === 1 ? 'has' : 'have'}`;
  return [
    {
      key: 'packets',
      level: 'bad',
      brief: `Packets pending for ${span(Math.round(oldest / 1000))}`,
      text: `${channels} packets that have been pending for more than 10 min, the oldest for ${span(Math.round(oldest / 1000))}.`,
      link: { text: 'Show the packets', view: ALL, target: 'packets' },
    },
  ];
}

function walletProblems({ telemetry }) {
  const empty = telemetry?.wallets.filter((wallet) => wallet.balance === 0) ?? [];
  if (empty.length === 0) {
    return [];
  }
  const wallets = `${counted(empty.length, 'wallet')} ${empty.length === 1 ? 'is' : 'are'} empty`;
  const chains = [...new Set(empty.map((wallet) => wallet.chain))].sort(inOrder).join(', ');
  return [
    {
      key: 'wallets',
      level: 'bad',
      brief: wallets,
      text: `${wallets}, on ${chains}.`,
      link: { text: 'Show the wallets', view: ALL, target: 'wallets' },
    },
  ];
}
