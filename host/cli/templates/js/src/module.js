// The entry point of the component: calls `handle` with the host. Interfaces imported
// here must also be in `wit/world.wit`.

import * as chains from "relayer:rest/chains@0.1.0";
import { report } from "relayer:rest/failure@0.1.0";

import { response } from "../sdk/response.js";
import { handle } from "./handle.js";

export const handler = {
  handle(request) {
    try {
      return response(handle({ chains }, request));
    } catch (thrown) {
      // The host returns 500, and logs the cause.
      report(`${thrown}\n${thrown?.stack ?? ""}`);
      throw thrown;
    }
  },
};
