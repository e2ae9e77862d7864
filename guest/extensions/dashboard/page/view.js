// What of it is shown. It stands in the address, so that a view can be shared,
// and so that the browser's way back leads to the one before.

// Names in the address, and here.
const IN_ADDRESS = { chain: 'chain', with: 'other', kind: 'kind', find: 'find' };

function viewOfAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const view = { page: 0 };
  for (const [name, field] of Object.entries(IN_ADDRESS)) {
    view[field] = fields.get(name) ?? '';
  }
  return view.chain === '' ? { ...view, other: '' } : view;
}

// Whoever types or goes through the graph does not want to go back through all
// of that.
function viewToAddress(view, isStep) {
  const fields = new URLSearchParams();
  for (const [name, field] of Object.entries(IN_ADDRESS)) {
    if (view[field] !== '') {
      fields.set(name, view[field]);
    }
  }
  const hash = fields.size > 0 ? `#${fields}` : location.pathname + location.search;
  if (isStep) {
    history.pushState(null, '', hash);
  } else {
    history.replaceState(null, '', hash);
  }
}

// The rows of the chains and the text that were chosen, and of those the ones
// of the kind.
function rowsOf(model, view) {
  const words = view.find
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  const isOfChains = ({ from, to }) => {
    if (view.chain === '') {
      return true;
    }
    if (view.other === '') {
      return from === view.chain || to === view.chain;
    }
    return (from === view.chain && to === view.other) || (from === view.other && to === view.chain);
  };
  const ofAnyKind = model.rows.filter(
    (row) => isOfChains(row) && words.every((word) => row.words.includes(word)),
  );
  const ofKind = view.kind === '' ? ofAnyKind : ofAnyKind.filter((row) => row.kind === view.kind);
  return { ofAnyKind, ofKind };
}

const isFiltered = (view) => [view.chain, view.kind, view.find].some((field) => field !== '');
