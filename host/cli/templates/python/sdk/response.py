"""Responses, and errors in the format of this API."""

import json
import math
from typing import Any


class Response(Exception):
    """A response: its `status`, its `headers`, and its `body`. A handler returns it, or
    raises it to end early."""

    def __init__(
        self, status: int, headers: tuple[tuple[str, str], ...] = (), body: bytes = b""
    ) -> None:
        super().__init__(status)
        if not isinstance(status, int):
            raise TypeError(f"a status is an int, such as 200, not {status!r}")
        if not isinstance(body, bytes):
            raise TypeError(f"a body is a str or bytes, not {body!r}")
        self.status = status
        self.headers = headers
        self.body = body

    @staticmethod
    def empty(status: int) -> "Response":
        """Creates a response without headers and body."""
        return Response(status)

    @staticmethod
    def of_type(content_type: str, body: str | bytes) -> "Response":
        """Creates a response with status 200 and a body of a content type, such as
        `text/html; charset=utf-8`."""
        body = body.encode() if isinstance(body, str) else body
        return Response(200, (("content-type", content_type),), body)

    @staticmethod
    def text(text: str) -> "Response":
        """Creates a response with status 200 and plain text."""
        return Response.of_type("text/plain; charset=utf-8", text)

    @staticmethod
    def json(status: int, value: Any) -> "Response":
        """Creates a response with a value as JSON. Numbers that JSON does not have, such as
        an infinite one, become `null`."""
        body = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
        return Response.of_type("application/json", body).with_status(status)

    @staticmethod
    def success(result: Any) -> "Response":
        """Creates a response with status 200 and `{"status":"success","result":…}`."""
        return Response.json(200, {"status": "success", "result": result})

    @staticmethod
    def error(status: int, name: str, msg: str) -> "Response":
        """Creates a response with `{"status":"error","result":{"name":…,"msg":…}}`: the
        name is for programs, the message for people."""
        return Response.json(status, {"status": "error", "result": {"name": name, "msg": msg}})

    @staticmethod
    def not_ready(reason: Any) -> "Response":
        """Creates the response 503 `NotReady`, for data that the host does not have yet.
        Its `retry-after` is that of the reason, rounded up to whole seconds, at least 1."""
        seconds = max(1, -(-reason.retry_after // 1_000_000_000))
        response = Response.error(503, "NotReady", reason.message)
        return response.with_header("retry-after", str(seconds))

    @staticmethod
    def not_found(path: str, known: str) -> "Response":
        """Creates the response 404 `NotFound`, whose message lists the known paths."""
        msg = f"nothing is served at {path}; there are {known}"
        return Response.error(404, "NotFound", msg)

    @staticmethod
    def method_not_allowed(method: str, path: str) -> "Response":
        """Creates the response 405 `MethodNotAllowed`."""
        msg = f"{method} is not allowed on {path}; GET and HEAD are"
        response = Response.error(405, "MethodNotAllowed", msg)
        return response.with_header("allow", "GET, HEAD")

    def with_status(self, status: int) -> "Response":
        """Returns the response with another status."""
        return Response(status, self.headers, self.body)

    def with_header(self, name: str, value: str) -> "Response":
        """Returns the response with one more header."""
        if not isinstance(value, str):
            raise TypeError(f"a header's value is a str, not {value!r}")
        return Response(self.status, (*self.headers, (name, value)), self.body)

    def header(self, name: str) -> str | None:
        """Returns the value of the first header with this name, for tests."""
        same = (value for known, value in self.headers if known.lower() == name.lower())
        return next(same, None)

    def text_body(self) -> str:
        """Returns the body as text, for tests."""
        return self.body.decode()

    def json_body(self) -> Any:
        """Returns the value of a JSON body, for tests."""
        return json.loads(self.body)


def _finite(value: Any) -> Any:
    """Returns a value with `None` for the numbers that JSON does not have."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value
