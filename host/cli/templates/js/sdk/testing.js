// A fake host and its requests, to run a handler in tests, without WebAssembly.

import { Host, imported } from "./host.js";
import { Request as AnyRequest } from "./request.js";
import { cases, check, fields, imports } from "./world.js";

/** A host whose data is set by the test. It has the interfaces that `wit/world.wit` imports, so
 * that a missing import fails in a test, too. */
export class FakeHost extends Host {
  #notReady = {};
  #components = [{ name: "ibc-relayer", version: "1.2.3" }];
  #chains = [];
  #state = { chains: [], names: { text: "", ends: [] }, workers: [] };
  #families;
  #mount = "/";
  #cleared = [];
  #logged = [];

  /** Creates a host without chains and workers. */
  constructor() {
    const interfaces = {};
    super(interfaces);
    for (const { name } of imports()) interfaces[name] = this.#interface(name);
  }

  /** Creates a host that knows neither the chains nor the state, with a retry time of 1 s. */
  static notReady(message) {
    const host = new FakeHost();
    host.#notReady = { chains: message, state: message };
    return host;
  }

  /** Adds a connected chain, with fields of its configuration, such as `rpcAddr`. Others are
   * undefined, or empty arrays. */
  withChain(id, given = {}) {
    const known = fields("chain-config");
    const others = known.map(([field]) => field).filter((field) => field !== "id");
    check("field", Object.keys(given), others);
    const lists = known.filter(([, type]) => type.startsWith("list<"));
    const empty = Object.fromEntries(lists.map(([field]) => [field, []]));
    this.#chains.push({ ...empty, id, kind: { tag: "cosmos-sdk" }, ...given });
    this.#state.chains.push(id);
    this.#state.chains.sort();
    return this;
  }

  /** Adds a worker, whose object has a kind and names: `"Wallet", { chainId: "ibc-0" }`.
   * Workers are numbered from 1. Names that are not given are empty. */
  withWorker(kind, given = {}) {
    const kinds = new Map(cases("object").filter(([kind]) => kind !== "Other"));
    check("kind", [kind], [...kinds.keys()]);
    const known = fields(kinds.get(kind)).map(([name]) => name);
    check("name", Object.keys(given), known);
    const tag = kind.replaceAll(/[A-Z]/g, (letter, at) => (at ? "-" : "") + letter.toLowerCase());
    const names = known.map((name) => [name, this.#name(given[name] ?? "")]);
    const id = BigInt(this.#state.workers.length + 1);
    this.#state.workers.push({ id, object: { tag, val: Object.fromEntries(names) } });
    return this;
  }

  /** Adds a sample of a gauge to the telemetry, which is then known. */
  withMetric(name, labels, value) {
    this.#families ??= [];
    let family = this.#families.find((family) => family.name === name);
    if (!family) {
      family = { name, kind: "gauge", help: "", samples: [] };
      this.#families.push(family);
    }
    const pairs = Object.entries(labels).map(([name, value]) => ({ name, value }));
    family.samples.push({ name, labels: pairs, value, since: TIME });
    return this;
  }

  /** Sets the path at which the module is mounted. */
  mountedAt(path) {
    this.#mount = path;
    return this;
  }

  /** Returns the chains of the commands to clear packets; `undefined` for all chains. */
  cleared() {
    return this.#cleared;
  }

  /** Returns the lines that were written to the log, as `[level, message]`. */
  logged() {
    return this.#logged;
  }

  /** Returns an interface of the host, as the module would import it. */
  #interface(name) {
    switch (name) {
      case "version":
        return { components: () => this.#components };
      case "chains":
        return {
          ids: () => this.#known("chains").map((chain) => chain.id),
          config: (id) => this.#known("chains").find((chain) => chain.id === id),
        };
      case "state":
        return { current: () => this.#known("state") };
      case "snapshot":
        return { changed: () => TIME, unconfirmedSince: () => undefined, sources: () => [] };
      case "telemetry":
        return {
          families: () => this.#telemetry().map((family) => family.name).sort(),
          family: (name) => this.#telemetry().find((family) => family.name === name),
          scraped: () => this.#telemetry() && TIME,
        };
      case "commands":
        return { clearPackets: (chain) => void this.#cleared.push(chain) };
      case "mount":
        return { path: () => this.#mount };
      case "log":
        return { log: (level, message) => void this.#logged.push([level, message]) };
    }
  }

  /** Returns the chains or the state, if they are known. */
  #known(data) {
    if (this.#notReady[data] !== undefined) throw notReady(this.#notReady[data], 1);
    return data === "chains" ? this.#chains : this.#state;
  }

  #telemetry() {
    if (!this.#families) throw notReady("the relayer's telemetry is not read", 60);
    return this.#families;
  }

  /** Returns the index of a name, which is added. */
  #name(text) {
    const { names } = this.#state;
    names.text += text;
    names.ends.push(new TextEncoder().encode(names.text).length);
    return names.ends.length - 1;
  }
}

/** A request, whose headers and query can be read if `wit/world.wit` imports `request` and
 * `query`. */
export class Request extends AnyRequest {
  headerAll(name) {
    imported(world(), "request");
    return super.headerAll(name);
  }

  queryText() {
    imported(world(), "query");
    return super.queryText();
  }
}

function world() {
  return Object.fromEntries(imports().map(({ name }) => [name, true]));
}

/** 2026-01-01T00:00:00Z, in nanoseconds. */
const TIME = 1_767_225_600_000_000_000n;

function notReady(message, seconds) {
  const payload = { message, retryAfter: BigInt(seconds) * 1_000_000_000n };
  return Object.assign(new Error(message), { payload });
}
