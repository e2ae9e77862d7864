// The export of a module.

import { Host, imported } from "./host.js";
import { Request } from "./request.js";

// The engine's own ends the module without a cause.
globalThis.fetch = () => {
  throw new Error("fetch: modules make no requests; the host's functions have the data");
};

/** Returns the contract's `handler` for a function `(host, request) => response`, from the
 * interfaces that the module imports. */
export function module(handle, imports) {
  const host = new Host(imports);
  return {
    handle(request) {
      try {
        return inContract(handle(host, new HostRequest(request, imports)));
      } catch (thrown) {
        // The host returns 500, and logs the cause.
        const report = imports.failure?.report ?? console.error;
        const stack = thrown?.stack?.trim().split("\n") ?? [];
        report([String(thrown), ...stack].join(", "));
        throw thrown;
      }
    },
  };
}

/** A request whose query and headers the host has. */
class HostRequest extends Request {
  #imports;

  constructor({ method, path }, imports) {
    super(method, path);
    this.#imports = imports;
  }

  queryText() {
    return imported(this.#imports, "query").get();
  }

  headerAll(name) {
    return imported(this.#imports, "request").header(name);
  }
}

function inContract({ status, headers, body }) {
  return {
    status,
    headers: headers.map(([name, value]) => ({ name, value: utf8(value) })),
    body: typeof body === "string" ? utf8(body) : body,
  };
}

function utf8(text) {
  return new TextEncoder().encode(text);
}
