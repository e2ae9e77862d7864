// Parameters of paths and queries: their decoding, and their errors.

/** The error of a parameter in the path or the query. If a handler throws it, the response
 * is 400 `InvalidParameter`. */
export class InvalidParameter extends Error {
  /** Creates the error from the name of the parameter, its problem and a remedy. */
  constructor(name, problem) {
    super(`parameter ${name}: ${problem}`);
    this.name = "InvalidParameter";
  }
}

/** Percent-decodes the value of a parameter. */
export function decode(name, text) {
  if (/%(?![0-9a-f]{2})/i.test(text)) {
    throw new InvalidParameter(name, `'${text}' is not percent-encoded; write % as %25`);
  }
  try {
    return decodeURIComponent(text);
  } catch {
    const problem = `'${text}' is not UTF-8 when decoded; encode text as UTF-8`;
    throw new InvalidParameter(name, problem);
  }
}

/** Decodes the value of a parameter of a query, in which `+` is a space. */
export function decodeForm(name, text) {
  return decode(name, text.replaceAll("+", " "));
}
