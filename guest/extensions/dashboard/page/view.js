// The view: the selected part of the model. It is stored in the address, so that it can
// be shared, and so that the browser's back button returns to the view before.

// The fields of a view, by their names in the address.
const IN_ADDRESS = {
  chain: 'chain',
  with: 'other',
  kind: 'kind',
  find: 'find',
  only: 'only',
  sort: 'sort',
  'sort-chains': 'sortChains',
};

// The fields of a view of everything; the order of the tables is kept.
const ALL = { chain: '', other: '', kind: '', find: '', only: '' };

function viewOfAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const view = { page: 0 };
  for (const [name, field] of Object.entries(IN_ADDRESS)) {
    view[field] = fields.get(name) ?? '';
  }
  return view.chain === '' ? { ...view, other: '' } : view;
}

// Only steps are added to the history: the back button must not go through each typed
// letter or each arrow key in the graph.
function viewToAddress(view, isStep) {
  const address = addressOfView(view);
  if (isStep) {
    history.pushState(null, '', address);
  } else {
    history.replaceState(null, '', address);
  }
}

function addressOfView(view) {
  const fields = new URLSearchParams();
  for (const [name, field] of Object.entries(IN_ADDRESS)) {
    if ((view[field] ?? '') !== '') {
      fields.set(name, view[field]);
    }
  }
  return fields.size > 0 ? `#${fields}` : location.pathname + location.search;
}

// Returns the rows that match the chosen chains and text, and those of the chosen kind
// among them, in the chosen order.
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
  const isProblem = (row) => view.only !== 'problems' || row.isBlocked;
  const ofAnyKind = sortedRows(model, view.sort).filter(
    (row) => isOfChains(row) && isProblem(row) && words.every((word) => row.words.includes(word)),
  );
  const ofKind = view.kind === '' ? ofAnyKind : ofAnyKind.filter((row) => row.kind === view.kind);
  return { ofAnyKind, ofKind };
}

const isFiltered = (view) => [view.chain, view.kind, view.find, view.only].some((field) => field !== '');
