// Helpers for elements of the page. Text is only ever inserted as text, because most of
// it comes from chains.

const SVG = 'http://www.w3.org/2000/svg';

const byId = (id) => document.getElementById(id);

// Creates an element with attributes and children, which are elements or texts.
function html(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  set(element, attributes);
  element.append(...children);
  return element;
}

// Sets the attributes whose values differ, so that unchanged elements are not laid out
// again. Null removes an attribute.
function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null) {
      element.removeAttribute(name);
    } else if (element.getAttribute(name) !== String(value)) {
      element.setAttribute(name, value);
    }
  }
}

// Sets the text if it differs, so that a selection in unchanged text is kept.
function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

const kept = new WeakMap();

// Makes the children of an element match a list of items. The element of an item is
// reused, and keeps the focus if it has it. If its item is gone, the part of the page with
// the list gets the focus, so that the keyboard stays near.
function keep(parent, items, key, make, update) {
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const before = kept.get(parent) ?? new Map();
  const now = new Map(items.map((item) => [key(item), before.get(key(item)) ?? make(item)]));
  for (const [name, element] of before) {
    if (!now.has(name)) {
      element.remove();
    }
  }
  let place = items.length > 0 ? firstKept(parent, before) : null;
  for (const item of items) {
    const element = now.get(key(item));
    if (element === place) {
      place = place.nextSibling;
    } else {
      parent.insertBefore(element, place);
    }
    update(element, item);
  }
  kept.set(parent, now);
  if (focused !== null && focused !== document.activeElement) {
    const next = focused.isConnected ? focused : parent.closest('[tabindex="-1"]');
    next?.focus({ preventScroll: true });
  }
}

// Returns the first child for an item. Other children, such as a legend, come first.
function firstKept(parent, before) {
  for (const element of before.values()) {
    if (element.parentNode === parent) {
      return element;
    }
  }
  return null;
}
