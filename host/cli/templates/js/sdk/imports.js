// Writes `src/imports.js`, with the interfaces that `wit/world.wit` imports.

import { readFileSync, writeFileSync } from "node:fs";

const world = readFileSync(new URL("../wit/world.wit", import.meta.url), "utf8");
const imports = world.matchAll(/^\s*import (relayer:rest\/([a-z]+)@[\d.]+);/gm);
const lines = Array.from(imports, ([, id, name]) => `export * as ${name} from "${id}";\n`);
const comment = "// Written by `npm run build` from `wit/world.wit`.\n\n";
writeFileSync(new URL("../src/imports.js", import.meta.url), comment + lines.join(""));
