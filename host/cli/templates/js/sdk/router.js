// Routing of requests by path.

import { InvalidParameter, decode } from "./parameter.js";
import { Response } from "./response.js";

/** A table of routes; the first match handles a request. */
export class Router {
  #routes = [];

  /** Adds the handler of GET requests for a path such as `/chain/:id`: a function
   * `(host, request, params) => response`. Each `:name` matches one segment that is not
   * empty. */
  get(path, handler) {
    this.#routes.push({ path, handler });
    return this;
  }

  /** Handles a request. If the host does not have the data yet, the response is 503
   * `NotReady`; if a parameter is invalid, 400 `InvalidParameter`. */
  respond(host, request) {
    const { method, path } = request;
    const route = this.#routes.find((route) => matches(route.path, path));
    if (!route) {
      return Response.notFound(path, this.#routes.map((route) => route.path).join(", "));
    }
    if (method !== "GET") return Response.methodNotAllowed(method, path);
    try {
      const response = route.handler(host, request, new Params(route.path, path));
      if (response instanceof Response) return response;
      throw new TypeError(`the handler of ${route.path} returned ${response}, not a Response`);
    } catch (thrown) {
      if (thrown instanceof Response) return thrown;
      if (thrown instanceof InvalidParameter) {
        return Response.error(400, "InvalidParameter", thrown.message);
      }
      if (thrown?.payload?.retryAfter === undefined) throw thrown;
      return Response.notReady(thrown.payload);
    }
  }
}

/** The segments of a path that match the `:name`s of a route. */
export class Params {
  #route;
  #path;

  constructor(route, path) {
    this.#route = route;
    this.#path = path;
  }

  /** Returns the segment that matches `:name`, percent-decoded. Throws `InvalidParameter` if
   * it is not percent-encoded UTF-8. */
  get(name) {
    return decode(name, this.raw(name));
  }

  /** Returns the segment that matches `:name`, as the client sent it. */
  raw(name) {
    const place = this.#route.split("/").indexOf(`:${name}`);
    if (place < 0) throw new Error(`the route ${this.#route} has no parameter :${name}`);
    return this.#path.split("/")[place];
  }
}

function matches(route, path) {
  const names = route.split("/");
  const segments = path.split("/");
  return names.length === segments.length && names.every((name, place) =>
    name.startsWith(":") ? segments[place] !== "" : segments[place] === name);
}
