// The parts of the contract in `wit/` that the build and a fake host need.

import { readFileSync } from "node:fs";

/** Returns the identifiers of the interfaces that `wit/world.wit` imports, with their names. */
export function imports() {
  const lines = read("world.wit").matchAll(/^\s*import (relayer:rest\/([a-z]+)@[\d.]+);/gm);
  return Array.from(lines, ([, id, name]) => ({ id, name }));
}

/** Returns the fields of a record, as pairs of their names in JavaScript and types in WIT. */
export function fields(record) {
  const found = body(`record ${record}`).matchAll(/^ +([a-z0-9-]+): (.*),\r?$/gm);
  return Array.from(found, ([, name, type]) => [camelCase(name), type]);
}

/** Returns the cases of a variant, as pairs of their names, such as `CrossChainQuery`, and the
 * types of their values. */
export function cases(variant) {
  const found = body(`variant ${variant}`).matchAll(/^ +([a-z0-9-]+)(?:\((.*)\))?,\r?$/gm);
  return Array.from(found, ([, name, type]) => [camelCase(`-${name}`), type]);
}

/** Throws an error if the contract does not know one of the given names. */
export function check(what, given, known) {
  const unknown = given.find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw new TypeError(`${what} ${unknown}: not in the contract; expected ${known.join(", ")}`);
}

function body(declaration) {
  const pattern = new RegExp(`^    ${declaration} \\{\r?\n(.*?)^    \\}`, "ms");
  const found = read("deps/relayer-rest/types.wit").match(pattern);
  if (!found) throw new Error(`${declaration}: not in the contract`);
  return found[1];
}

function camelCase(name) {
  return name.replaceAll(/-(.)/g, (_, first) => first.toUpperCase());
}

function read(file) {
  return readFileSync(new URL(`../wit/${file}`, import.meta.url), "utf8");
}
