// Adds `openapi.json`, the declaration of the routes, to a module: `node sdk/openapi.js FILE.wasm`.

import { appendFileSync, existsSync, readFileSync } from "node:fs";

/** Returns a number as LEB128. */
function number(value) {
  return value < 128 ? [value] : [(value % 128) | 128, ...number(Math.floor(value / 128))];
}

const [, , module] = process.argv;
const document = new URL("../openapi.json", import.meta.url);
if (existsSync(document)) {
  const name = Buffer.from("openapi");
  const section = Buffer.concat([Buffer.from([name.length]), name, readFileSync(document)]);
  // A custom section can be at the end of a component.
  appendFileSync(module, Buffer.concat([Buffer.from([0, ...number(section.length)]), section]));
}
