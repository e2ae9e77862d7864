// The chains and their lines as tables: for screen readers, for small screens in place of
// the graph, and for the rows of a chain with a problem.

const CHAIN_COLUMNS = ['state', 'chain', 'workers', 'blocked'];

function drawList(model, view) {
  const order = orderOf(view.sortChains, CHAIN_COLUMNS);
  const byName = { column: 'chain', isFalling: false };
  const worstFirst = sorted(model.chains, byName, chainValue).sort(
    (one, other) => other.blocked - one.blocked,
  );
  drawOrder(byId('chain-table'), order);
  keep(
    byId('chain-table').tBodies[0],
    sorted(worstFirst, order, chainValue),
    (chain) => chain.id,
    makeChainRow,
    (row, chain) => {
      const [state, , workers, blocked] = row.children;
      set(row, {
        class: `${levelOf(chain)}${chain.id === view.chain ? ' chosen' : ''}`,
        'aria-current': chain.id === view.chain ? 'true' : null,
      });
      setText(state, briefStateOf(chain));
      setText(workers, model.isKnown ? number(chain.workers) : '');
      setText(blocked, model.isKnown ? number(chain.blocked) : '');
    },
  );
  byId('list').hidden = model.chains.length === 0;
  byId('as-text').hidden = model.pairs.length === 0;
  drawLines(model);
}

function chainValue(chain, column) {
  const states = ['', 'warn', 'bad'];
  return { state: states.indexOf(levelOf(chain)), chain: chain.id }[column] ?? chain[column];
}

function makeChainRow({ id }) {
  const cell = (column) => html('td', { class: column });
  return html(
    'tr',
    {},
    cell('state'),
    html('th', { scope: 'row' }, textButton(id, () => choose(id, '', { isToggle: true }))),
    cell('number'),
    cell('number'),
  );
}

function drawLines(model) {
  // Rows are created only if they are visible: there may be hundreds.
  if (!byId('as-text').open) {
    return;
  }
  keep(
    byId('text-of-pairs'),
    [...model.pairs].sort((one, other) => other.isDown - one.isDown),
    (pair) => pair.key,
    ({ a, b }) => {
      const button = textButton(`${a} ↔ ${b}`, () => choose(a, b));
      return html('tr', {}, html('th', { scope: 'row' }, button), html('td'), html('td'));
    },
    (row, pair) => {
      const [, there, back] = row.children;
      set(row, { class: pair.isDown ? 'bad' : '' });
      setText(there, listed(pair.there) || 'none');
      setText(back, listed(pair.back) || 'none');
    },
  );
}

function textButton(name, onClick) {
  const button = html('button', { type: 'button', class: 'plain' }, name);
  button.addEventListener('click', onClick);
  return button;
}

sortBy(byId('chain-table'), 'sortChains', CHAIN_COLUMNS);
byId('as-text').addEventListener('toggle', () => shown.model !== null && drawLines(shown.model));
