// Routing of requests by path.

import { error, notReady, withHeader } from "./response.js";

/** Returns a handler for the routes `{ "/a/:b": (host, { b }, request) => response }`.
 * Each `:name` matches one segment of the path that is not empty, which is
 * percent-decoded: to an empty string if that fails. The first route that matches handles
 * the request. If the host does not have the data yet, the response is 503 `NotReady`. */
export function routes(table) {
  const all = Object.entries(table).map(([path, get]) => ({ segments: path.split("/"), get }));
  const paths = Object.keys(table).join(", ");
  return (host, request) => {
    const { method, path } = request;
    const segments = path.split("/");
    const route = all.find((route) => matches(route.segments, segments));
    if (!route) {
      return error(404, "NotFound", `nothing is served at ${path}; there are ${paths}`);
    }
    if (method !== "GET") {
      const msg = `${method} is not allowed on ${path}; GET and HEAD are`;
      return withHeader(error(405, "MethodNotAllowed", msg), "allow", "GET, HEAD");
    }
    try {
      return route.get(host, params(route.segments, segments), request);
    } catch (thrown) {
      const reason = thrown?.payload;
      if (reason?.retryAfter === undefined) throw thrown;
      return notReady(reason);
    }
  };
}

function matches(route, path) {
  return route.length === path.length && route.every((segment, place) =>
    segment.startsWith(":") ? path[place] !== "" : path[place] === segment);
}

function params(route, path) {
  const named = route.flatMap((segment, place) =>
    segment.startsWith(":") ? [[segment.slice(1), decoded(path[place])]] : []);
  return Object.fromEntries(named);
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return "";
  }
}
