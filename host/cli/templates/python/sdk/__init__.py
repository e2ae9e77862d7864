"""The SDK for modules of `relayer-rest`, with the names of the SDKs for Rust and JavaScript.

| file | job |
|---|---|
| `request.py` | the request: its method, path, headers and query |
| `parameter.py` | the decoding of parameters, and their errors |
| `host.py` | the host's functions, by the interfaces that the module imports |
| `state.py` | the relayer's state with its names resolved |
| `router.py` | routing by path |
| `response.py` | responses and errors, with their status and headers |
| `module.py` | the export of a module |
| `openapi.py` | adds the declaration of the routes to the module |
| `testing.py` | a fake host for tests |
| `contract.py` | the names in the contract, for the fake host |
"""

from .host import Host
from .parameter import InvalidParameter
from .request import Request
from .response import Response
from .router import Params, Router
from .state import State

__all__ = ["Host", "InvalidParameter", "Params", "Request", "Response", "Router", "State"]
