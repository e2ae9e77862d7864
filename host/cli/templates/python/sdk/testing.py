"""A fake host and its requests, to run a handler in tests, without WebAssembly."""

from enum import Enum
from types import SimpleNamespace
from typing import Any

from . import contract
from .host import LEVELS, Host, imported
from .request import Request as AnyRequest

TIME = 1_767_225_600_000_000_000
"""2026-01-01T00:00:00Z, in nanoseconds."""


class Err(Exception):
    """The exception that the functions of a host raise."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value


MetricKind = Enum("MetricKind", [case.upper() for case in contract.cases("metric-kind")], start=0)


class FakeHost(Host):
    """A host whose data is set by the test. It has the interfaces that `wit/world.wit`
    imports, so that a missing import fails in a test, too."""

    def __init__(self) -> None:
        """Creates a host without chains and workers."""
        fakes = self._interfaces()
        super().__init__({name: fakes[name] for name in contract.imports() if name in fakes})
        self._not_ready: str | None = None
        self._chains: list[Any] = []
        self._connected: list[str] = []
        self._names = SimpleNamespace(text="", ends=[])
        self._workers: list[Any] = []
        self._families: dict[str, Any] | None = None
        self._mount = "/"
        self._cleared: list[str | None] = []
        self._logged: list[tuple[str, str]] = []

    @classmethod
    def not_ready(cls, message: str) -> "FakeHost":
        """Creates a host that knows neither the chains nor the state, with a retry time of
        1 s."""
        host = cls()
        host._not_ready = message
        return host

    def with_chain(self, id: str, **fields: Any) -> "FakeHost":
        """Adds a connected chain, with fields of its configuration, such as
        `rpc_addr`. Others are `None`, or empty lists."""
        known = contract.fields("chain-config")
        contract.check("field", fields, [field for field in known if field != "id"])
        empty = {field: [] if type.startswith("list<") else None for field, type in known.items()}
        kind = type("ChainKind_CosmosSdk", (SimpleNamespace,), {})()
        self._chains.append(SimpleNamespace(**{**empty, "id": id, "kind": kind, **fields}))
        self._connected = sorted([*self._connected, id])
        return self

    def with_worker(self, kind: str, **names: str) -> "FakeHost":
        """Adds a worker, whose object has a kind and names: `"Wallet", chain_id="ibc-0"`.
        Workers are numbered from 1. Names that are not given are empty."""
        kinds = {kind: of for kind, of in contract.cases("object").items() if kind != "Other"}
        contract.check("kind", [kind], kinds)
        known = contract.fields(kinds[kind])
        contract.check("name", names, known)
        names = {**dict.fromkeys(known, ""), **names}
        value = SimpleNamespace(**{field: self._name(text) for field, text in names.items()})
        object = type(f"Object_{kind}", (SimpleNamespace,), {})(value=value)
        id = len(self._workers) + 1
        self._workers.append(SimpleNamespace(id=id, object=object, data=None))
        return self

    def with_metric(self, name: str, labels: dict[str, str], value: float) -> "FakeHost":
        """Adds a sample of a gauge to the telemetry, which is then known."""
        self._families = self._families or {}
        family = SimpleNamespace(name=name, kind=MetricKind.GAUGE, help="", samples=[])
        family = self._families.setdefault(name, family)
        pairs = [SimpleNamespace(name=name, value=value) for name, value in labels.items()]
        family.samples.append(SimpleNamespace(name=name, labels=pairs, value=value, since=TIME))
        return self

    def mounted_at(self, path: str) -> "FakeHost":
        """Sets the path at which the module is mounted."""
        self._mount = path
        return self

    def cleared(self) -> list[str | None]:
        """Returns the chains of the commands to clear packets; `None` for all chains."""
        return self._cleared

    def logged(self) -> list[tuple[str, str]]:
        """Returns the lines that were written to the log, with their levels."""
        return self._logged

    def _interfaces(self) -> dict[str, Any]:
        """Returns the interfaces of the host, as the module would import them."""
        components = [SimpleNamespace(name="ibc-relayer", version="1.2.3")]
        return {
            "version": SimpleNamespace(components=lambda: components),
            "chains": SimpleNamespace(
                ids=lambda: [chain.id for chain in self._known(self._chains)],
                config=lambda id: next(
                    (chain for chain in self._known(self._chains) if chain.id == id), None
                ),
            ),
            "state": SimpleNamespace(
                current=lambda: self._known(
                    SimpleNamespace(
                        chains=self._connected, names=self._names, workers=self._workers
                    )
                )
            ),
            "snapshot": SimpleNamespace(
                changed=lambda: TIME, unconfirmed_since=lambda: None, sources=lambda: []
            ),
            "telemetry": SimpleNamespace(
                families=lambda: sorted(self._telemetry()),
                family=lambda name: self._telemetry().get(name),
                scraped=lambda: self._telemetry() and TIME,
            ),
            "commands": SimpleNamespace(clear_packets=lambda chain: self._cleared.append(chain)),
            "mount": SimpleNamespace(path=lambda: self._mount),
            "log": SimpleNamespace(
                Level={level.upper(): level for level in LEVELS},
                log=lambda level, message: self._logged.append((level, message)),
            ),
        }

    def _known(self, data: Any) -> Any:
        if self._not_ready is not None:
            raise _not_ready(self._not_ready, 1)
        return data

    def _telemetry(self) -> dict[str, Any]:
        if self._families is None:
            raise _not_ready("the relayer's telemetry is not read", 60)
        return self._families

    def _name(self, text: str) -> int:
        """Returns the index of a name, which is added."""
        self._names.text += text
        self._names.ends.append(len(self._names.text.encode()))
        return len(self._names.ends) - 1


class Request(AnyRequest):
    """A request, whose headers and query can be read if `wit/world.wit` imports `request`
    and `query`."""

    def header_all(self, name: str) -> list[bytes]:
        _require("request")
        return super().header_all(name)

    def query_text(self) -> str | None:
        _require("query")
        return super().query_text()


def _require(interface: str) -> None:
    imported(dict.fromkeys(contract.imports(), True), interface)


def _not_ready(message: str, seconds: int) -> Err:
    return Err(SimpleNamespace(message=message, retry_after=seconds * 1_000_000_000))
