// A host made up in a test.

/** A host that has these chains, in the form of the contract's imports. */
export function fakeHost(...ids) {
  return {
    chains: {
      ids: () => ids,
      config: (id) => (ids.includes(id) ? { id, kind: { tag: "cosmos-sdk" } } : undefined),
    },
  };
}

/** A host that knows nothing yet. */
export function notReadyHost(message) {
  const fail = () => {
    throw Object.assign(new Error(message), { payload: { message, retryAfter: 1_000_000_000n } });
  };
  return { chains: { ids: fail, config: fail }, state: { current: fail } };
}

/** A request. */
export function get(path) {
  return { method: "GET", path };
}
