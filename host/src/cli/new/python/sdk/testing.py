"""A host made up in a test."""

from types import SimpleNamespace
from typing import Any, NoReturn, cast

from .host import Host, Request


class Err(Exception):
    """What a host's functions raise."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value


def fake_host(*ids: str) -> Host:
    """A host that has these chains, of which nothing but the identifier is known."""
    chains = {id: SimpleNamespace(id=id) for id in ids}
    return _host(lambda: [*ids], chains.get)


def not_ready_host(message: str) -> Host:
    """A host that knows nothing yet."""

    def fail(*_: object) -> NoReturn:
        raise Err(SimpleNamespace(message=message, retry_after=1_000_000_000))

    return _host(fail, fail)


def get(path: str, method: str = "GET") -> Request:
    """A request."""
    return cast(Request, SimpleNamespace(method=method, path=path))


def _host(ids: Any, config: Any) -> Host:
    chains = SimpleNamespace(ids=ids, config=config)
    return cast(Host, SimpleNamespace(chains=chains))
