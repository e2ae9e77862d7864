// What becomes the component: `handle`, with the host that runs it. What is
// imported here has to be in `wit/world.wit`, too.

import * as chains from "relayer:rest/chains@0.1.0";

import { response } from "../sdk/response.js";
import { handle } from "./handle.js";

export const handler = {
  handle(request) {
    try {
      return response(handle({ chains }, request));
    } catch (thrown) {
      // The host answers 500, and would not know why.
      console.error(`${thrown}\n${thrown?.stack ?? ""}`);
      throw thrown;
    }
  },
};
