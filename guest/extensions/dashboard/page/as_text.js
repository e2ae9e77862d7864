// The graph as text, for screen readers and for touch screens.

function drawAsText(model) {
  // Rows are created only if they are visible: there may be hundreds.
  if (!byId('as-text').open) {
    return;
  }
  const cells = (row) => [...row.children];
  keep(
    byId('text-of-chains'),
    model.chains,
    (chain) => chain.id,
    (chain) => textRow(chain.id, () => choose(chain.id, '')),
    (row, chain) => {
      const [, state, workers] = cells(row);
      setText(state, stateOf(chain));
      setText(workers, listed(chain.counts) || (model.isKnown ? 'none' : 'not known'));
    },
  );
  keep(
    byId('text-of-pairs'),
    model.pairs,
    (pair) => pair.key,
    (pair) => textRow(`${pair.a} ↔ ${pair.b}`, () => choose(pair.a, pair.b)),
    (row, pair) => {
      const [, there, back] = cells(row);
      setText(there, listed(pair.there) || 'none');
      setText(back, listed(pair.back) || 'none');
    },
  );
}

function textRow(name, onClick) {
  const button = html('button', { type: 'button', class: 'plain' }, name);
  button.addEventListener('click', onClick);
  return html('tr', {}, html('th', { scope: 'row' }, button), html('td'), html('td'));
}

byId('as-text').addEventListener('toggle', () => shown.model !== null && drawAsText(shown.model));
