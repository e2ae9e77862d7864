// The details of the chosen chain or pair of chains, and the list to choose a chain from.

function drawChosen(model, view) {
  drawChoices(model, view);
  byId('chosen').hidden = view.chain === '';
  if (view.chain === '') {
    return;
  }
  const chain = model.chainOf.get(view.chain);
  const pair = model.pairs.find((known) => known.key === keyOf(view.chain, view.other));
  setText(byId('chosen-title'), view.other === '' ? view.chain : `${view.chain} ↔ ${view.other}`);
  setText(byId('chosen-text'), describeChosen(model, view, chain, pair));
  byId('chosen-counts').hidden = pair === undefined;
  if (pair !== undefined) {
    drawWays(pair, view);
  }
}

function describeChosen(model, view, chain, pair) {
  if (view.other === '') {
    if (chain === undefined) {
      return model.isKnown
        ? 'Unknown chain.'
        : 'The chains are not known.';
    }
    const text = describeChain(model, chain);
    return `${text[0].toUpperCase()}${text.slice(1)}.`;
  }
  if (!model.isKnown) {
    return 'The workers are not known.';
  }
  if (pair?.isDown) {
    return 'The workers are blocked: a chain is not connected.';
  }
  const words = {
    both: 'There are Packet workers in both directions.',
    one: 'There are Packet workers in one direction only.',
    none: 'There are no Packet workers.',
  };
  return pair === undefined ? 'There are no workers between them.' : words[pair.flow];
}

// Shows the counts of workers in each direction, by kind.
function drawWays(pair, view) {
  const [there, back] = pair.a === view.chain ? [pair.there, pair.back] : [pair.back, pair.there];
  setText(byId('chosen-there'), `${view.chain} → ${view.other}`);
  setText(byId('chosen-back'), `${view.other} → ${view.chain}`);
  const kinds = [...new Set([...there.keys(), ...back.keys()])];
  keep(
    byId('chosen-counts').tBodies[0],
    kinds,
    (kind) => kind,
    (kind) => html('tr', {}, html('th', { scope: 'row' }, kind), html('td'), html('td')),
    (row, kind) => {
      setText(row.children[1], number(there.get(kind) ?? 0));
      setText(row.children[2], number(back.get(kind) ?? 0));
    },
  );
}

function drawChoices(model, view) {
  const select = byId('chain');
  const ids = model.chains.map((chain) => chain.id);
  // The chain in the address is an option even if it does not exist.
  const all = view.chain === '' || ids.includes(view.chain) ? ids : [view.chain, ...ids];
  keep(
    select,
    ['', ...all],
    (id) => id,
    (id) => html('option', { value: id }, id || 'All chains'),
    () => {},
  );
  if (select.value !== view.chain) {
    select.value = view.chain;
  }
}

byId('chain').addEventListener('change', () => choose(byId('chain').value, ''));
byId('all').addEventListener('click', () => {
  choose('', '');
  // The button is hidden now, and would lose the focus.
  byId('chain').focus();
});
