// The table of workers: filtered, and one page at a time, so that thousands of workers
// are as fast as ten.

const PAGE = 50;
const COLUMNS = ['state', 'kind', 'from', 'to', 'object', 'detail', 'number'];

function drawTable(model, view) {
  const { ofAnyKind, ofKind } = rowsOf(model, view);
  drawKinds(model, view, ofAnyKind);
  drawOrder(byId('table'), orderOf(view.sort, COLUMNS));
  drawOnly(model, view);
  const last = Math.max(0, Math.ceil(ofKind.length / PAGE) - 1);
  view.page = Math.min(view.page, last);
  const first = view.page * PAGE;
  const rows = ofKind.slice(first, first + PAGE);
  keep(
    byId('table').tBodies[0],
    rows.map((row, at) => ({ row, at })),
    ({ at }) => at,
    makeRow,
    drawRow,
  );
  setText(byId('count'), describeCount(model, view, ofKind.length));
  setText(byId('empty'), describeEmpty(model, view));
  byId('empty').hidden = rows.length > 0;
  byId('pages').hidden = last === 0;
  byId('before').disabled = view.page === 0;
  byId('after').disabled = view.page === last;
  setText(
    byId('page'),
    `${number(first + 1)} to ${number(first + rows.length)} of ${number(ofKind.length)}`,
  );
}

function makeRow() {
  const cell = (name) => html('td', { role: 'cell', class: name });
  return html('tr', { role: 'row' }, ...COLUMNS.map(cell));
}

function drawRow(element, { row }) {
  set(element, { 'data-kind': row.kind, class: row.isBlocked ? 'bad' : '' });
  row.texts.forEach((text, column) => setText(element.children[column], text));
}

// Returns all rows in an order. Typing a letter must not sort thousands of them again.
function sortedRows(model, text) {
  if (model.sorted?.text !== text) {
    const value = (row, column) =>
      column === 'state' ? Number(row.isBlocked) : row.texts[COLUMNS.indexOf(column)];
    model.sorted = { text, rows: sorted(model.rows, orderOf(text, COLUMNS), value) };
  }
  return model.sorted.rows;
}

// Shows the option for the blocked workers alone if there are any, or if it is chosen.
function drawOnly(model, view) {
  const isChosen = view.only === 'problems';
  byId('only').parentNode.hidden = !isChosen && !model.rows.some((row) => row.isBlocked);
  if (byId('only').checked !== isChosen) {
    byId('only').checked = isChosen;
  }
}

function describeCount(model, view, count) {
  if (!model.isKnown) {
    return '';
  }
  return isFiltered(view)
    ? `${number(count)} of ${counted(model.rows.length, 'worker')}`
    : counted(count, 'worker');
}

function describeEmpty(model, view) {
  if (!model.isKnown) {
    return 'The workers are not known.';
  }
  return isFiltered(view) ? 'No worker matches.' : 'The relayer has no workers.';
}

// Shows one option per kind, with its number of workers that match the other filters.
function drawKinds(model, view, rows) {
  const counts = new Map([...model.kinds.keys()].map((kind) => [kind, 0]));
  // The kind in the address is an option even if it has no workers.
  if (view.kind !== '' && !counts.has(view.kind)) {
    counts.set(view.kind, 0);
  }
  for (const row of rows) {
    counts.set(row.kind, counts.get(row.kind) + 1);
  }
  const kinds = [['', rows.length], ...counts];
  keep(
    byId('kinds'),
    kinds,
    ([kind]) => kind,
    makeKind,
    (label, [kind, count]) => {
      const [input, , countOf] = label.children;
      if (input.checked !== (kind === view.kind)) {
        input.checked = kind === view.kind;
      }
      setText(countOf, number(count));
      label.classList.toggle('none', count === 0);
    },
  );
  byId('kinds').hidden = counts.size === 0;
}

function makeKind([kind]) {
  const input = html('input', { type: 'radio', name: 'kind', value: kind });
  input.addEventListener('change', () => change({ kind }, { isStep: true }));
  const label = html(
    'label',
    { 'data-kind': kind },
    input,
    html('span', {}, kind || 'All'),
    html('b'),
  );
  if (Object.hasOwn(MEANINGS, kind)) {
    label.title = MEANINGS[kind];
  }
  return label;
}

function turn(pages) {
  shown.view.page += pages;
  drawTable(shown.model, shown.view);
  byId('workers').scrollIntoView({ block: 'start' });
}

byId('before').addEventListener('click', () => turn(-1));
byId('after').addEventListener('click', () => turn(1));
sortBy(byId('table'), 'sort', COLUMNS);
byId('only').addEventListener('change', () => {
  change({ only: byId('only').checked ? 'problems' : '' }, { isStep: true });
});
byId('find').addEventListener('input', () => change({ find: byId('find').value }));
