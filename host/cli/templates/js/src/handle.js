// NAME: responds to requests about a relayer, below its mount path.

import { error, success, text } from "../sdk/response.js";
import { routes } from "../sdk/router.js";

/** Handles a request. The `grants` of the mount must include the interfaces of the host
 * that are imported: here `chains`. */
export const handle = routes({
  "/": allChains,
  "/chain/:id": oneChain,
});

/** Lists the configured chains, with their number. */
function allChains(host) {
  const ids = host.chains.ids();
  return text(`${ids.length} chains: ${ids.join(", ")}\n`);
}

/** Returns the identifier of a chain, or 404 if it is not configured. */
function oneChain(host, { id }) {
  const chain = host.chains.config(id);
  if (!chain) return error(404, "ChainNotFound", `there is no chain ${id}`);
  return success(chain.id);
}
