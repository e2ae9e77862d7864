// The host's functions, by the interfaces that the module imports.

/** The functions that a module can call. All reads of one request see the same snapshot of
 * the relayer. Each function needs an import of `wit/world.wit`, which its comment names.
 * If the data is not known yet, a function throws an error that is 503 `NotReady` unless
 * the handler catches it. */
export class Host {
  #imports;

  /** Creates the host from the interfaces that `wit/world.wit` imports, by their names. */
  constructor(imports) {
    this.#imports = imports;
  }

  /** Returns the parts of the relayer and their versions. Imports `version`. */
  components() {
    return imported(this.#imports, "version").components();
  }

  /** Returns the identifiers of the configured chains. Imports `chains`. */
  chainIds() {
    return imported(this.#imports, "chains").ids();
  }

  /** Returns the configuration of a chain (`chain-config` in
   * `wit/deps/relayer-rest/types.wit`), or `undefined`. Imports `chains`. */
  chain(id) {
    return imported(this.#imports, "chains").config(id);
  }

  /** Returns the connected chains and the active workers; `State` resolves their names.
   * Imports `state`. */
  state() {
    return imported(this.#imports, "state").current();
  }

  /** Returns the time of the last change, in nanoseconds since 1970. Imports `snapshot`. */
  changed() {
    return imported(this.#imports, "snapshot").changed();
  }

  /** Returns the time since which the relayer has not confirmed its state, in nanoseconds
   * since 1970, or `undefined`. Imports `snapshot`. */
  unconfirmedSince() {
    return imported(this.#imports, "snapshot").unconfirmedSince();
  }

  /** Returns the sources of the data. Imports `snapshot`. */
  sources() {
    return imported(this.#imports, "snapshot").sources();
  }

  /** Returns the names of the relayer's families of metrics. Imports `telemetry`. */
  metricFamilies() {
    return imported(this.#imports, "telemetry").families();
  }

  /** Returns a family of metrics, or `undefined`. Imports `telemetry`. */
  metricFamily(name) {
    return imported(this.#imports, "telemetry").family(name);
  }

  /** Returns the time at which the telemetry was read, in nanoseconds since 1970. Imports
   * `telemetry`. */
  scraped() {
    return imported(this.#imports, "telemetry").scraped();
  }

  /** Records the command to clear the pending packets of a chain, or of all chains with
   * `undefined`. Imports `commands`. */
  clearPackets(chain) {
    imported(this.#imports, "commands").clearPackets(chain);
  }

  /** Returns the path at which the module is mounted. Imports `mount`. */
  mount() {
    return imported(this.#imports, "mount").path();
  }

  /** Writes a line to the host's log. The level is `trace`, `debug`, `info`, `warn` or
   * `error`. Imports `log`. */
  log(level, message) {
    if (!LEVELS.includes(level)) {
      throw new Error(`level ${level}: expected ${LEVELS.join(", ")}`);
    }
    imported(this.#imports, "log").log(level, message);
  }
}

const LEVELS = ["trace", "debug", "info", "warn", "error"];

/** Returns an interface of the host. Throws an error with the remedy if the module does not
 * import it. */
export function imported(imports, name) {
  const found = imports[name];
  if (found) return found;
  throw new Error(
    `interface ${name}: not imported; add \`import relayer:rest/${name}@0.1.0;\` to ` +
      `wit/world.wit, and "${name}" to the grants of the module's mount`,
  );
}
