"""Fake hosts for tests."""

from types import SimpleNamespace
from typing import Any, NoReturn, cast

from .host import Host, Request


class Err(Exception):
    """The exception that the functions of a host raise."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value


def fake_host(*ids: str) -> Host:
    """Creates a host with these configured chains, which have only their identifiers."""
    chains = {id: SimpleNamespace(id=id) for id in ids}
    return _host(lambda: [*ids], chains.get)


def not_ready_host(message: str) -> Host:
    """Creates a host that does not know the chains yet."""

    def fail(*_: object) -> NoReturn:
        raise Err(SimpleNamespace(message=message, retry_after=1_000_000_000))

    return _host(fail, fail)


def get(path: str, method: str = "GET") -> Request:
    """Creates a request."""
    return cast(Request, SimpleNamespace(method=method, path=path))


def _host(ids: Any, config: Any) -> Host:
    chains = SimpleNamespace(ids=ids, config=config)
    return cast(Host, SimpleNamespace(chains=chains))
