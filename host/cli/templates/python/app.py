"""The entry point of the component: calls `handle` with the host. Interfaces imported
here must also be in `wit/world.wit`."""

from types import SimpleNamespace

from wit_world import exports
from wit_world.exports.handler import Header, Request, Response
from wit_world.imports import chains, failure

from handle import handle

HOST = SimpleNamespace(chains=chains)


class Handler(exports.Handler):
    def handle(self, request: Request) -> Response:
        try:
            response = handle(HOST, request)
            headers = [Header(name, value.encode()) for name, value in response.headers]
            return Response(response.status, headers, response.body)
        except BaseException as thrown:
            # The host returns 500, and logs the cause.
            failure.report(f"{type(thrown).__name__}: {thrown}{where(thrown)}")
            raise


def where(thrown: BaseException) -> str:
    """Returns the lines of code that an exception passed. The module `traceback` would
    read the source files, which the component does not have."""
    lines, trace = [], thrown.__traceback__
    while trace:
        code = trace.tb_frame.f_code
        lines.append(f", {code.co_filename}:{trace.tb_lineno} in {code.co_name}")
        trace = trace.tb_next
    return "".join(lines)
