// Small helpers for what is on the page. Text is only ever put there as text:
// most of it comes from chains.

const SVG = 'http://www.w3.org/2000/svg';

const byId = (id) => document.getElementById(id);

// An element with attributes and children, which are elements or texts.
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

// Sets attributes, where they are not as they should be: what does not change
// is not laid out again. Null removes one.
function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null) {
      element.removeAttribute(name);
    } else if (element.getAttribute(name) !== String(value)) {
      element.setAttribute(name, value);
    }
  }
}

// The same for the text: whoever has selected some of it keeps that.
function say(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

const kept = new WeakMap();

// Makes the children of an element those of some items. What was there for an
// item stays there, with the focus that it may have.
function keep(parent, items, key, make, update) {
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
}

// Children that are not for items, such as a legend, come first and stay.
function firstKept(parent, before) {
  for (const element of before.values()) {
    if (element.parentNode === parent) {
      return element;
    }
  }
  return null;
}
