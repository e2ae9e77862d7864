"""Routing of requests by path."""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from .response import Response, error, not_ready
from .host import Host, Request

Params = dict[str, str]
Route = Callable[[Host, Params], Response]


class Router:
    """A table of routes; the first match handles a request."""

    def __init__(self) -> None:
        self._routes: list[tuple[str, Route]] = []

    def get(self, path: str) -> Callable[[Route], Route]:
        """Adds the handler of GET requests for a path such as `/chain/:id`. Each
        `:name` matches one segment that is not empty, which is percent-decoded."""

        def add(route: Route) -> Route:
            self._routes.append((path, route))
            return route

        return add

    def respond(self, host: Host, request: Request) -> Response:
        """Handles a request. If the host does not have the data yet, the response is
        503 `NotReady`."""
        method, path = request.method, request.path
        for known, route in self._routes:
            params = _match(known, path)
            if params is None:
                continue
            if method != "GET":
                msg = f"{method} is not allowed on {path}; GET and HEAD are"
                return error(405, "MethodNotAllowed", msg).with_header("allow", "GET, HEAD")
            try:
                return route(host, params)
            except Exception as thrown:
                reason: Any = getattr(thrown, "value", None)
                if not hasattr(reason, "retry_after"):
                    raise
                return not_ready(reason.message, reason.retry_after)
        known = ", ".join(known for known, _ in self._routes)
        return error(404, "NotFound", f"nothing is served at {path}; there are {known}")


def _match(route: str, path: str) -> Params | None:
    names, values = route.split("/"), path.split("/")
    if len(names) != len(values):
        return None
    params = {}
    for name, value in zip(names, values):
        if name.startswith(":") and value:
            params[name[1:]] = unquote(value)
        elif name != value:
            return None
    return params
