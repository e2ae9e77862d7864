"""The interfaces of the host that `wit/world.wit` imports."""

from typing import Any, Protocol


class Chains(Protocol):
    """The configured chains. Until they are known, the functions raise an exception
    whose `value` is a `NotReady`."""

    def ids(self) -> list[str]:
        """Returns the identifiers of the chains."""
        ...

    def config(self, id: str) -> Any | None:
        """Returns the configuration of a chain (`chain-config` in
        `wit/deps/relayer-rest/types.wit`), or `None` if it is not configured."""
        ...


class Host(Protocol):
    """The functions that a module can call, by interface."""

    chains: Chains


class Request(Protocol):
    """A request: its method, and its path relative to the mount path."""

    method: str
    path: str
