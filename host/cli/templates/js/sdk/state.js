// The relayer's state with its names resolved.

/** The connected chains and the active workers. In the contract, workers refer to names by
 * index: thousands of workers repeat the same few identifiers. */
export class State {
  #state;
  #names;

  /** Wraps a state that `host.state()` returned. */
  constructor(state) {
    const { text, ends } = state.names;
    const bytes = new TextEncoder().encode(text);
    const decoder = new TextDecoder();
    this.#state = state;
    this.#names = Array.from(ends, (end, index) =>
      decoder.decode(bytes.subarray(ends[index - 1] ?? 0, end)));
  }

  /** Returns the identifiers of the connected chains. */
  chains() {
    return [...this.#state.chains];
  }

  /** Returns the active workers, `{ id, object, data }`. An object has its `kind`, such as
   * `Client`, and the names of its kind, such as `dstChainId`. */
  workers() {
    return this.#state.workers.map(({ id, object, data }) => {
      return { id, object: this.#object(object), data };
    });
  }

  #object({ tag, val }) {
    const text = (name) => this.#names[name];
    if (tag === "other") return { kind: text(val.kind), fields: val.fields };
    const kind = tag.replaceAll(/(?:^|-)(.)/g, (_, first) => first.toUpperCase());
    const names = Object.entries(val).map(([field, name]) => [field, text(name)]);
    return { kind, ...Object.fromEntries(names) };
  }
}
