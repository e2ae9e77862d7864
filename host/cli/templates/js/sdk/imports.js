// Writes `src/imports.js`, with the interfaces that `wit/world.wit` imports.

import { writeFileSync } from "node:fs";

import { imports } from "./world.js";

const lines = imports().map(({ id, name }) => `export * as ${name} from "${id}";\n`);
const comment = "// Written by `npm run build` from `wit/world.wit`.\n\n";
writeFileSync(new URL("../src/imports.js", import.meta.url), comment + lines.join(""));
