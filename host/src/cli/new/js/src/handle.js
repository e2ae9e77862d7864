// NAME: answers requests about a relayer, below the path where it is mounted.

import { error, success, text } from "../sdk/response.js";
import { routes } from "../sdk/router.js";

/** Answers a request. What is called of the host is what `grants` have to allow:
 * here `chains`. */
export const handle = routes({
  "/": allChains,
  "/chain/:id": oneChain,
});

/** The chains, and how many there are. */
function allChains(host) {
  const ids = host.chains.ids();
  return text(`${ids.length} chains: ${ids.join(", ")}\n`);
}

/** Whether there is such a chain. */
function oneChain(host, { id }) {
  const chain = host.chains.config(id);
  if (!chain) return error(404, "ChainNotFound", `there is no chain ${id}`);
  return success(chain.id);
}
