// The table of workers: filtered, and one page at a time, so that thousands of workers
// are as fast as ten.

const PAGE = 50;
// The maximum length of names that stay on one line, in UTF-16 code units.
const LONG = 18;
const COLUMNS = ['kind', 'from', 'to', 'object', 'detail', 'number'];

function drawTable(model, view) {
  const { ofAnyKind, ofKind } = rowsOf(model, view);
  drawKinds(model, view, ofAnyKind);
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
  byId('table').hidden = rows.length === 0;
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
  set(element, { 'data-kind': row.kind });
  row.texts.forEach((text, column) => {
    const cell = element.children[column];
    setText(cell, text);
    cell.classList.toggle('long', text.length > LONG);
  });
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
byId('find').addEventListener('input', () => change({ find: byId('find').value }));
