"""Parameters of paths and queries: their decoding, and their errors."""

import re
from urllib.parse import unquote_to_bytes


class InvalidParameter(Exception):
    """The error of a parameter in the path or the query. If a handler raises it, the
    response is 400 `InvalidParameter`."""

    def __init__(self, name: str, problem: str) -> None:
        """Creates the error from the name of the parameter, its problem and a remedy."""
        super().__init__(f"parameter {name}: {problem}")


def decode(name: str, text: str) -> str:
    """Percent-decodes the value of a parameter."""
    if re.search("%(?![0-9A-Fa-f]{2})", text):
        raise InvalidParameter(name, f"'{text}' is not percent-encoded; write % as %25")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        problem = f"'{text}' is not UTF-8 when decoded; encode text as UTF-8"
        raise InvalidParameter(name, problem) from None


def decode_form(name: str, text: str) -> str:
    """Decodes the value of a parameter of a query, in which `+` is a space."""
    return decode(name, text.replace("+", " "))
