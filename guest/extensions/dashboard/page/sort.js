// Tables that are sorted by a column. A button in the column's header sorts by it, and
// sorts in the other direction if it is pressed again.

// Problems come first unless the user chooses another order.
const BY_STATE = '-state';

// Columns that begin with their highest values.
const FROM_THE_TOP = ['state', 'workers', 'blocked'];

// Returns the column and the direction of an order, such as `from` or `-workers`.
function orderOf(text, columns) {
  const isFalling = text.startsWith('-');
  const column = isFalling ? text.slice(1) : text;
  return columns.includes(column) ? { column, isFalling } : { column: 'state', isFalling: true };
}

function compare(one, other) {
  return typeof one === 'number' ? one - other : inOrder(one, other);
}

// Sorts items by a column. Items that are equal keep their order, in either direction.
function sorted(items, { column, isFalling }, valueOf) {
  const direction = isFalling ? -1 : 1;
  return items
    .map((item) => ({ item, value: valueOf(item, column) }))
    .sort((one, other) => direction * compare(one.value, other.value))
    .map(({ item }) => item);
}

// Shows the order in the headers of a table.
function drawOrder(table, order) {
  for (const header of table.tHead.querySelectorAll('[data-column]')) {
    const isSorted = header.dataset.column === order.column;
    set(header, { 'aria-sort': isSorted ? (order.isFalling ? 'descending' : 'ascending') : null });
  }
}

// Lets the headers of a table change the order in a field of the view.
function sortBy(table, field, columns) {
  table.tHead.addEventListener('click', (event) => {
    const name = event.target.closest('button')?.parentNode.dataset.column;
    if (name === undefined) {
      return;
    }
    const { column, isFalling } = orderOf(shown.view[field], columns);
    const isNext = name === column ? !isFalling : FROM_THE_TOP.includes(name);
    const order = `${isNext ? '-' : ''}${name}`;
    change({ [field]: order === BY_STATE ? '' : order });
  });
}
