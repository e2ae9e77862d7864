// NAME: responds to requests about a relayer, below its mount path.

import { Response, Router } from "../sdk/index.js";

const routes = new Router()
  .get("/", allChains)
  .get("/chain/:id", oneChain);

/** Handles a request. The `grants` of the mount must include the interfaces that
 * `wit/world.wit` imports. */
export function handle(host, request) {
  return routes.respond(host, request);
}

/** Lists the configured chains, with their number. */
function allChains(host, request, params) {
  const ids = host.chainIds();
  return Response.text(`${ids.length} chains: ${ids.join(", ")}\n`);
}

/** Returns the identifier of a chain, or 404 if it is not configured. */
function oneChain(host, request, params) {
  const id = params.get("id");
  const chain = host.chain(id);
  if (!chain) return Response.error(404, "ChainNotFound", `there is no chain ${id}`);
  return Response.success(chain.id);
}
