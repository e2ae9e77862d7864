// Fake hosts for tests.

/** Creates a host with these configured chains, in the format of the contract's
 * imports. */
export function fakeHost(...ids) {
  return {
    chains: {
      ids: () => ids,
      config: (id) => (ids.includes(id) ? { id, kind: { tag: "cosmos-sdk" } } : undefined),
    },
  };
}

/** Creates a host that knows neither the chains nor the state. */
export function notReadyHost(message) {
  const fail = () => {
    throw Object.assign(new Error(message), { payload: { message, retryAfter: 1_000_000_000n } });
  };
  return { chains: { ids: fail, config: fail }, state: { current: fail } };
}

/** Creates a GET request. */
export function get(path) {
  return { method: "GET", path };
}
