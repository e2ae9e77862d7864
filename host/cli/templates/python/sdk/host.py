"""The host's functions, by the interfaces that the module imports."""

from collections.abc import Mapping
from typing import Any

LEVELS = ("trace", "debug", "info", "warn", "error")
"""The levels of the log."""


class Host:
    """The functions that a module can call. All reads of one request see the same snapshot
    of the relayer. Each function needs an import of `wit/world.wit`, which its text names.
    If the data is not known yet, a function raises an exception that is 503 `NotReady`
    unless the handler catches it."""

    def __init__(self, imports: Mapping[str, Any]) -> None:
        """Creates the host from the interfaces that `wit/world.wit` imports, by their
        names."""
        self._imports = imports

    def components(self) -> list[Any]:
        """Returns the parts of the relayer and their versions. Imports `version`."""
        return imported(self._imports, "version").components()

    def chain_ids(self) -> list[str]:
        """Returns the identifiers of the configured chains. Imports `chains`."""
        return imported(self._imports, "chains").ids()

    def chain(self, id: str) -> Any | None:
        """Returns the configuration of a chain (`chain-config` in
        `wit/deps/relayer-rest/types.wit`), or `None`. Imports `chains`."""
        return imported(self._imports, "chains").config(id)

    def state(self) -> Any:
        """Returns the connected chains and the active workers; `State` resolves their
        names. Imports `state`."""
        return imported(self._imports, "state").current()

    def changed(self) -> int:
        """Returns the time of the last change, in nanoseconds since 1970. Imports
        `snapshot`."""
        return imported(self._imports, "snapshot").changed()

    def unconfirmed_since(self) -> int | None:
        """Returns the time since which the relayer has not confirmed its state, in
        nanoseconds since 1970, or `None`. Imports `snapshot`."""
        return imported(self._imports, "snapshot").unconfirmed_since()

    def sources(self) -> list[Any]:
        """Returns the sources of the data. Imports `snapshot`."""
        return imported(self._imports, "snapshot").sources()

    def metric_families(self) -> list[str]:
        """Returns the names of the relayer's families of metrics. Imports `telemetry`."""
        return imported(self._imports, "telemetry").families()

    def metric_family(self, name: str) -> Any | None:
        """Returns a family of metrics, or `None`. Imports `telemetry`."""
        return imported(self._imports, "telemetry").family(name)

    def scraped(self) -> int:
        """Returns the time at which the telemetry was read, in nanoseconds since 1970.
        Imports `telemetry`."""
        return imported(self._imports, "telemetry").scraped()

    def clear_packets(self, chain: str | None) -> None:
        """Records the command to clear the pending packets of a chain, or of all chains
        with `None`. Imports `commands`."""
        imported(self._imports, "commands").clear_packets(chain)

    def mount(self) -> str:
        """Returns the path at which the module is mounted. Imports `mount`."""
        return imported(self._imports, "mount").path()

    def log(self, level: str, message: str) -> None:
        """Writes a line to the host's log. The level is `trace`, `debug`, `info`, `warn` or
        `error`. Imports `log`."""
        log = imported(self._imports, "log")
        if level not in LEVELS:
            raise ValueError(f"level {level}: expected {', '.join(LEVELS)}")
        log.log(log.Level[level.upper()], message)


def imported(imports: Mapping[str, Any], name: str) -> Any:
    """Returns an interface of the host. Raises an exception with the remedy if the module
    does not import it."""
    if name in imports:
        return imports[name]
    raise RuntimeError(
        f"interface {name}: not imported; add `import relayer:rest/{name}@0.1.0;` to "
        f'wit/world.wit, and "{name}" to the grants of the module\'s mount'
    )
