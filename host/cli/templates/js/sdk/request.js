// The request that a module handles.

import { InvalidParameter, decodeForm } from "./parameter.js";

/** A request: its `method`, its `path` relative to the mount path, its headers and its
 * query. A response depends on the headers and on the query only if a handler reads them. */
export class Request {
  #query;
  #headers = [];

  /** Creates a request, for tests. The target is a path, and can have a query. */
  constructor(method, target) {
    const end = target.indexOf("?");
    this.method = method;
    this.path = end < 0 ? target : target.slice(0, end);
    this.#query = end < 0 ? undefined : target.slice(end + 1);
  }

  /** Creates a GET request, for tests. */
  static get(target) {
    return new this("GET", target);
  }

  /** Adds a header, for tests. */
  withHeader(name, value) {
    this.#headers.push([name.toLowerCase(), new TextEncoder().encode(value)]);
    return this;
  }

  /** Returns the value of a header as text, or `undefined` if the request does not have it.
   * Several values are joined by `, `. The name is case-insensitive. Imports `request`. */
  header(name) {
    const values = this.headerAll(name).map((value) => new TextDecoder().decode(value));
    return values.length > 0 ? values.join(", ") : undefined;
  }

  /** Returns the values of all headers with a name as bytes. Imports `request`. */
  headerAll(name) {
    const same = this.#headers.filter(([known]) => known === name.toLowerCase());
    return same.map(([, value]) => value);
  }

  /** Returns the query as the client sent it, or `undefined` if the target has no `?`.
   * Imports `query`, as the functions below. */
  queryText() {
    return this.#query;
  }

  /** Returns the decoded value of a parameter, or `undefined` if the query does not have it.
   * Throws `InvalidParameter` if it is repeated, or is not percent-encoded UTF-8. */
  query(name) {
    const values = this.#values(name);
    if (values.length > 1) {
      throw new InvalidParameter(name, `occurs ${values.length} times; send it once`);
    }
    return values.length > 0 ? decodeForm(name, values[0]) : undefined;
  }

  /** Returns the decoded values of a parameter that may be repeated, in their order. */
  queryAll(name) {
    return this.#values(name).map((value) => decodeForm(name, value));
  }

  /** Returns the value of a parameter after `parse`, such as `Number`, or `undefined` if the
   * query does not have the parameter. Throws `InvalidParameter` if `parse` throws an error
   * or returns NaN. */
  queryAs(name, parse) {
    const value = this.query(name);
    if (value === undefined) return undefined;
    // It would be true for each text but an empty one.
    if (parse === Boolean) parse = boolean;
    let parsed;
    try {
      parsed = parse(value);
    } catch (error) {
      throw new InvalidParameter(name, `'${value}' is not valid: ${error.message}`);
    }
    // For `Number` and `BigInt`, an empty text is 0.
    if (Number.isNaN(parsed) || ((parsed === 0 || parsed === 0n) && value.trim() === "")) {
      throw new InvalidParameter(name, `'${value}' is not valid: not a number`);
    }
    return parsed;
  }

  /** Returns the names and values of all parameters, in their order. Bytes that are not
   * UTF-8 become U+FFFD, and a `%` that encodes nothing is kept. */
  queryPairs() {
    return [...new URLSearchParams(`?${this.queryText() ?? ""}`)];
  }

  /** Returns the values of a parameter as the client sent them. */
  #values(name) {
    const pairs = (this.queryText() ?? "").split("&").filter((pair) => pair !== "");
    return pairs.flatMap((pair) => {
      const [known, ...value] = pair.split("=");
      return isName(known, name) ? [value.join("=")] : [];
    });
  }
}

function boolean(text) {
  if (text !== "true" && text !== "false") throw new Error("neither true nor false");
  return text === "true";
}

function isName(text, name) {
  try {
    return decodeForm("", text) === name;
  } catch {
    return false;
  }
}
