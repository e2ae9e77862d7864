// The interfaces that `wit/world.wit` imports.

import { readFileSync } from "node:fs";

/** Returns the identifiers of the imported interfaces, with their names. */
export function imports() {
  const world = readFileSync(new URL("../wit/world.wit", import.meta.url), "utf8");
  const lines = world.matchAll(/^\s*import (relayer:rest\/([a-z]+)@[\d.]+);/gm);
  return Array.from(lines, ([, id, name]) => ({ id, name }));
}
