"""Routing of requests by path."""

from collections.abc import Callable
from typing import Any

from .host import Host
from .parameter import InvalidParameter, decode
from .request import Request
from .response import Response


class Params:
    """The segments of a path that match the `:name`s of a route."""

    def __init__(self, route: str, path: str) -> None:
        self._route = route
        self._path = path

    def get(self, name: str) -> str:
        """Returns the segment that matches `:name`, percent-decoded. Raises
        `InvalidParameter` if it is not percent-encoded UTF-8."""
        return decode(name, self.raw(name))

    def raw(self, name: str) -> str:
        """Returns the segment that matches `:name`, as the client sent it."""
        for known, segment in zip(self._route.split("/"), self._path.split("/")):
            if known == f":{name}":
                return segment
        raise LookupError(f"the route {self._route} has no parameter :{name}")


Handler = Callable[[Host, Request, Params], Response]


class Router:
    """A table of routes; the first match handles a request."""

    def __init__(self) -> None:
        self._routes: list[tuple[str, Handler]] = []

    def get(self, path: str) -> Callable[[Handler], Handler]:
        """Adds the handler of GET requests for a path such as `/chain/:id`: a function of
        the host, the request and the parameters. Each `:name` matches one segment that is
        not empty."""

        def add(handler: Handler) -> Handler:
            self._routes.append((path, handler))
            return handler

        return add

    def respond(self, host: Host, request: Request) -> Response:
        """Handles a request. If the host does not have the data yet, the response is 503
        `NotReady`; if a parameter is invalid, 400 `InvalidParameter`."""
        method, path = request.method, request.path
        route = next((route for route in self._routes if _matches(route[0], path)), None)
        if route is None:
            return Response.not_found(path, ", ".join(known for known, _ in self._routes))
        if method != "GET":
            return Response.method_not_allowed(method, path)
        known, handler = route
        try:
            response = handler(host, request, Params(known, path))
        except Response as raised:
            return raised
        except InvalidParameter as error:
            return Response.error(400, "InvalidParameter", str(error))
        except Exception as raised:
            reason: Any = getattr(raised, "value", None)
            if not hasattr(reason, "retry_after"):
                raise
            return Response.not_ready(reason)
        if not isinstance(response, Response):
            raise TypeError(f"the handler of {known} returned {response!r}, not a Response")
        return response


def _matches(route: str, path: str) -> bool:
    names, segments = route.split("/"), path.split("/")
    return len(names) == len(segments) and all(
        segment != "" if name.startswith(":") else segment == name
        for name, segment in zip(names, segments)
    )
