"""Responses, and errors in the format of this API."""

import json as _json
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Response:
    """A response."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def with_header(self, name: str, value: str) -> "Response":
        """Returns the response with one more header."""
        return replace(self, headers=(*self.headers, (name, value)))

    def header(self, name: str) -> str | None:
        """Returns the value of the first header with this name, for tests."""
        return next((value for known, value in self.headers if known == name), None)


def of_type(content_type: str, body: str | bytes, status: int = 200) -> Response:
    """Creates a response with a body of a content type, such as
    `text/html; charset=utf-8`."""
    body = body.encode() if isinstance(body, str) else body
    return Response(status, (("content-type", content_type),), body)


def text(body: str) -> Response:
    """Creates a response with status 200 and plain text."""
    return of_type("text/plain; charset=utf-8", body)


def json(status: int, value: Any) -> Response:
    """Creates a response with a value as JSON."""
    body = _json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return of_type("application/json", body, status)


def success(result: Any) -> Response:
    """Creates a response with status 200 and `{"status":"success","result":…}`."""
    return json(200, {"status": "success", "result": result})


def error(status: int, name: str, msg: str) -> Response:
    """Creates a response with `{"status":"error","result":{"name":…,"msg":…}}`: the name
    is for programs, the message for people."""
    return json(status, {"status": "error", "result": {"name": name, "msg": msg}})


def not_ready(message: str, retry_after: int) -> Response:
    """Creates the response 503 `NotReady`, for data that the host does not have yet. Its
    header has `retry_after`, in nanoseconds, rounded up to seconds, at least 1."""
    seconds = max(1, -(-retry_after // 1_000_000_000))
    return error(503, "NotReady", message).with_header("retry-after", str(seconds))
