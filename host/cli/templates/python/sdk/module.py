"""The export of a module."""

import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from wit_world import exports, imports
from wit_world.exports import handler

from .host import Host, imported
from .request import Request
from .response import Response

# Imported here, because files are available only while the module is built.
IMPORTS = {
    name: import_module(f"wit_world.imports.{name}")
    for _, name, _ in iter_modules(imports.__path__)
}


def module(handle: Callable[[Host, Request], Response]) -> type[exports.Handler]:
    """Returns the contract's `Handler` for a function of the host and the request."""

    class Handler(exports.Handler):
        def handle(self, request: handler.Request) -> handler.Response:
            try:
                response = handle(Host(IMPORTS), HostRequest(request))
                headers = [
                    handler.Header(name, value.encode()) for name, value in response.headers
                ]
                return handler.Response(response.status, headers, response.body)
            except BaseException as raised:
                # The host returns 500, and logs the cause.
                report(f"{type(raised).__name__}: {raised}{where(raised)}")
                raise

    return Handler


class HostRequest(Request):
    """A request whose query and headers the host has."""

    def __init__(self, request: handler.Request) -> None:
        super().__init__(request.method, request.path)

    def query_text(self) -> str | None:
        return imported(IMPORTS, "query").get()

    def header_all(self, name: str) -> list[bytes]:
        return imported(IMPORTS, "request").header(name)


def report(cause: str) -> None:
    """Reports the cause of a failure to the host, or to its log without that import."""
    if failure := IMPORTS.get("failure"):
        failure.report(cause)
    else:
        print(cause, file=sys.stderr)


def where(raised: BaseException) -> str:
    """Returns the lines of code that an exception passed, the innermost first, without those
    of the SDK that call the handler. The module `traceback` would read the source files,
    which the component does not have."""
    lines, trace = [], raised.__traceback__
    while trace:
        code = trace.tb_frame.f_code
        line = f", {code.co_filename}:{trace.tb_lineno} in {code.co_name}"
        if "/sdk/" not in code.co_filename and line not in lines[-1:]:
            lines.append(line)
        trace = trace.tb_next
    return "".join(reversed(lines))
