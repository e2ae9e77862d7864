"""What the host shows, as far as `wit/world.wit` imports it."""

from typing import Any, Protocol


class Chains(Protocol):
    """The chains. What is not known yet raises an exception with a `NotReady`."""

    def ids(self) -> list[str]:
        """The identifiers of the chains."""
        ...

    def config(self, id: str) -> Any | None:
        """The configuration of a chain: `chain-config` in
        `wit/deps/relayer-rest/types.wit`."""
        ...


class Host(Protocol):
    """What a module can call, by interface."""

    chains: Chains


class Request(Protocol):
    """What is asked."""

    method: str
    path: str
