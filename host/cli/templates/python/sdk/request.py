"""The request that a module handles."""

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import parse_qsl

from .parameter import InvalidParameter, decode_form

T = TypeVar("T")


class Request:
    """A request: its `method`, its `path` relative to the mount path, its headers and its
    query. A response depends on the headers and on the query only if a handler reads
    them."""

    def __init__(self, method: str, target: str) -> None:
        """Creates a request, for tests. The target is a path, and can have a query."""
        self.method = method
        self.path, mark, query = target.partition("?")
        self._query = query if mark else None
        self._headers: list[tuple[str, bytes]] = []

    @classmethod
    def get(cls, target: str) -> "Request":
        """Creates a GET request, for tests."""
        return cls("GET", target)

    def with_header(self, name: str, value: str) -> "Request":
        """Adds a header, for tests."""
        self._headers.append((name.lower(), value.encode()))
        return self

    def header(self, name: str) -> str | None:
        """Returns the value of a header as text, or `None` if the request does not have it.
        Several values are joined by `, `. The name is case-insensitive. Imports
        `request`."""
        values = self.header_all(name)
        return b", ".join(values).decode(errors="replace") if values else None

    def header_all(self, name: str) -> list[bytes]:
        """Returns the values of all headers with a name as bytes. Imports `request`."""
        return [value for known, value in self._headers if known == name.lower()]

    def query_text(self) -> str | None:
        """Returns the query as the client sent it, or `None` if the target has no `?`.
        Imports `query`, as the functions below."""
        return self._query

    def query(self, name: str) -> str | None:
        """Returns the decoded value of a parameter, or `None` if the query does not have
        it. Raises `InvalidParameter` if it is repeated, or is not percent-encoded UTF-8."""
        values = self._values(name)
        if len(values) > 1:
            raise InvalidParameter(name, f"occurs {len(values)} times; send it once")
        return decode_form(name, values[0]) if values else None

    def query_all(self, name: str) -> list[str]:
        """Returns the decoded values of a parameter that may be repeated, in their
        order."""
        return [decode_form(name, value) for value in self._values(name)]

    def query_as(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Returns the value of a parameter after `parse`, such as `int`, or `None` if the
        query does not have the parameter. Raises `InvalidParameter` if `parse` raises a
        `ValueError`, an `ArithmeticError` as `Decimal` does, or a `LookupError` as the
        names of an `Enum` do."""
        value = self.query(name)
        if value is None:
            return None
        # It would be true for each text but an empty one.
        parse = _boolean if parse is bool else parse
        try:
            return parse(value)
        except (ValueError, ArithmeticError, LookupError) as error:
            raise InvalidParameter(name, f"'{value}' is not valid: {error}") from error

    def query_pairs(self) -> list[tuple[str, str]]:
        """Returns the names and values of all parameters, in their order. Bytes that are
        not UTF-8 become U+FFFD, and a `%` that encodes nothing is kept."""
        return parse_qsl(self.query_text() or "", keep_blank_values=True)

    def _values(self, name: str) -> list[str]:
        """Returns the values of a parameter as the client sent them."""
        pairs = [pair.partition("=") for pair in (self.query_text() or "").split("&") if pair]
        return [value for known, _, value in pairs if _is_name(known, name)]


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("neither true nor false")
    return text == "true"


def _is_name(text: str, name: str) -> bool:
    try:
        return decode_form("", text) == name
    except InvalidParameter:
        return False
