"""Answers, and errors in the form that this API has for them."""

import json as _json
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Response:
    """What a module answers."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def with_header(self, name: str, value: str) -> "Response":
        """The same with a header more."""
        return replace(self, headers=(*self.headers, (name, value)))

    def header(self, name: str) -> str | None:
        """The value of a header: for tests."""
        return next((value for known, value in self.headers if known == name), None)


def of_type(content_type: str, body: str | bytes, status: int = 200) -> Response:
    """A body of a type, such as `text/html; charset=utf-8`."""
    body = body.encode() if isinstance(body, str) else body
    return Response(status, (("content-type", content_type),), body)


def text(body: str) -> Response:
    """200 with a plain text."""
    return of_type("text/plain; charset=utf-8", body)


def json(status: int, value: Any) -> Response:
    """A value as JSON."""
    body = _json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return of_type("application/json", body, status)


def success(result: Any) -> Response:
    """`{"status":"success","result":…}`."""
    return json(200, {"status": "success", "result": result})


def error(status: int, name: str, msg: str) -> Response:
    """`{"status":"error","result":{"name":…,"msg":…}}`: the name is for programs, the
    message for people."""
    return json(status, {"status": "error", "result": {"name": name, "msg": msg}})


def not_ready(message: str, retry_after: int) -> Response:
    """503 `NotReady`, which says when to ask again: for what the host does not know
    yet."""
    seconds = max(1, -(-retry_after // 1_000_000_000))
    return error(503, "NotReady", message).with_header("retry-after", str(seconds))
