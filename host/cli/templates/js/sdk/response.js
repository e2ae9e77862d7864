// Responses, and errors in the format of this API. A response is
// `{ status, headers: [[name, value]], body }`; the body is a string or a Uint8Array.

/** Creates a response with a body of a content type, such as
 * `text/html; charset=utf-8`. */
export function ofType(contentType, body, status = 200) {
  return { status, headers: [["content-type", contentType]], body };
}

/** Creates a response with status 200 and plain text. */
export function text(body) {
  return ofType("text/plain; charset=utf-8", body);
}

/** Creates a response with a value as JSON. */
export function json(status, value) {
  return ofType("application/json", JSON.stringify(value), status);
}

/** Creates a response with status 200 and `{"status":"success","result":…}`. */
export function success(result) {
  return json(200, { status: "success", result });
}

/** Creates a response with `{"status":"error","result":{"name":…,"msg":…}}`: the name is
 * for programs, the message for people. */
export function error(status, name, msg) {
  return json(status, { status: "error", result: { name, msg } });
}

/** Creates the response 503 `NotReady`, for data that the host does not have yet. Its
 * `retry-after` is `retryAfter`, in nanoseconds, rounded up to seconds, at least 1. */
export function notReady({ message, retryAfter }) {
  const seconds = Math.max(1, Math.ceil(Number(retryAfter) / 1e9));
  return withHeader(error(503, "NotReady", message), "retry-after", String(seconds));
}

/** Returns the response with one more header. */
export function withHeader(response, name, value) {
  return { ...response, headers: [...response.headers, [name, value]] };
}

/** Converts a response to the contract's type. */
export function response({ status, headers, body }) {
  return {
    status,
    headers: headers.map(([name, value]) => ({ name, value: utf8(value) })),
    body: typeof body === "string" ? utf8(body) : body,
  };
}

function utf8(text) {
  return new TextEncoder().encode(text);
}
