// Answers, and errors in the form that this API has for them. An answer is
// `{ status, headers: [[name, value]], body }`; the body is a text or a Uint8Array.

/** A body of a type, such as `text/html; charset=utf-8`. */
export function ofType(contentType, body, status = 200) {
  return { status, headers: [["content-type", contentType]], body };
}

/** 200 with a plain text. */
export function text(body) {
  return ofType("text/plain; charset=utf-8", body);
}

/** A value as JSON. */
export function json(status, value) {
  return ofType("application/json", JSON.stringify(value), status);
}

/** `{"status":"success","result":…}`. */
export function success(result) {
  return json(200, { status: "success", result });
}

/** `{"status":"error","result":{"name":…,"msg":…}}`: the name is for programs, the
 * message for people. */
export function error(status, name, msg) {
  return json(status, { status: "error", result: { name, msg } });
}

/** 503 `NotReady`, which says when to ask again: for what the host does not know
 * yet. */
export function notReady({ message, retryAfter }) {
  const seconds = Math.max(1, Math.ceil(Number(retryAfter) / 1e9));
  return withHeader(error(503, "NotReady", message), "retry-after", String(seconds));
}

/** The same with a header more. */
export function withHeader(response, name, value) {
  return { ...response, headers: [...response.headers, [name, value]] };
}

/** What the contract has for an answer. */
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
