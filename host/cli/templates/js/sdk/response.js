// Responses, and errors in the format of this API.

/** A response: its `status`, its `headers` as `[name, value]`, and its `body`, a string or a
 * Uint8Array. A handler returns it, or throws it to end early. */
export class Response {
  constructor(status, headers = [], body = "") {
    if (!Number.isInteger(status)) {
      throw new TypeError(`a status is an integer, such as 200, not ${JSON.stringify(status)}`);
    }
    if (typeof body !== "string" && !(body instanceof Uint8Array)) {
      throw new TypeError(`a body is a string or a Uint8Array, not ${typeof body}`);
    }
    this.status = status;
    this.headers = headers;
    this.body = body;
  }

  /** Creates a response without headers and body. */
  static empty(status) {
    return new Response(status);
  }

  /** Creates a response with status 200 and a body of a content type, such as
   * `text/html; charset=utf-8`. */
  static ofType(contentType, body) {
    // The constructor would take it for an empty body.
    if (body === undefined) throw new TypeError("a body is a string or a Uint8Array, not undefined");
    return new Response(200, [["content-type", contentType]], body);
  }

  /** Creates a response with status 200 and plain text. */
  static text(text) {
    return Response.ofType("text/plain; charset=utf-8", text);
  }

  /** Creates a response with a value as JSON. A BigInt becomes a number, or a string if it
   * exceeds 2^53. */
  static json(status, value) {
    return Response.ofType("application/json", JSON.stringify(value, plain)).withStatus(status);
  }

  /** Creates a response with status 200 and `{"status":"success","result":…}`. */
  static success(result) {
    if (result === undefined) throw new TypeError("a result is a value of JSON, not undefined");
    return Response.json(200, { status: "success", result });
  }

  /** Creates a response with `{"status":"error","result":{"name":…,"msg":…}}`: the name is
   * for programs, the message for people. */
  static error(status, name, msg) {
    return Response.json(status, { status: "error", result: { name, msg } });
  }

  /** Creates the response 503 `NotReady`, for data that the host does not have yet. Its
   * `retry-after` is that of the reason, rounded up to whole seconds, at least 1. */
  static notReady({ message, retryAfter }) {
    const seconds = Math.max(1, Math.ceil(Number(retryAfter) / 1e9));
    return Response.error(503, "NotReady", message).withHeader("retry-after", String(seconds));
  }

  /** Creates the response 404 `NotFound`, whose message lists the known paths. */
  static notFound(path, known) {
    return Response.error(404, "NotFound", `nothing is served at ${path}; there are ${known}`);
  }

  /** Creates the response 405 `MethodNotAllowed`. */
  static methodNotAllowed(method, path) {
    const msg = `${method} is not allowed on ${path}; GET and HEAD are`;
    return Response.error(405, "MethodNotAllowed", msg).withHeader("allow", "GET, HEAD");
  }

  /** Returns the response with another status. */
  withStatus(status) {
    return new Response(status, this.headers, this.body);
  }

  /** Returns the response with one more header. */
  withHeader(name, value) {
    return new Response(this.status, [...this.headers, [name, value]], this.body);
  }

  /** Returns the value of the first header with this name, for tests. */
  header(name) {
    return this.headers.find(([known]) => known.toLowerCase() === name.toLowerCase())?.[1];
  }

  /** Returns the body as text, for tests. */
  textBody() {
    return typeof this.body === "string" ? this.body : new TextDecoder().decode(this.body);
  }

  /** Returns the value of a JSON body, for tests. */
  jsonBody() {
    return JSON.parse(this.textBody());
  }
}

function plain(_, value) {
  if (typeof value !== "bigint") return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}
