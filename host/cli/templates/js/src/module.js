// The entry point of the component. `npm run build` writes `imports.js` from
// `wit/world.wit`.

import { module } from "../sdk/module.js";
import { handle } from "./handle.js";
import * as imports from "./imports.js";

export const handler = module(handle, imports);
