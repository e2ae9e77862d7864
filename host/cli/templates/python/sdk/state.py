"""The relayer's state with its names resolved."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any


class State:
    """The connected chains and the active workers. In the contract, workers refer to names
    by index: thousands of workers repeat the same few identifiers."""

    def __init__(self, state: Any) -> None:
        """Wraps a state that `host.state()` returned."""
        text, ends = state.names.text.encode(), [0, *state.names.ends]
        self._state = state
        self._names = [text[start:end].decode() for start, end in zip(ends, ends[1:])]

    def chains(self) -> list[str]:
        """Returns the identifiers of the connected chains."""
        return [*self._state.chains]

    def workers(self) -> Iterator[Any]:
        """Returns the active workers, with `id`, `object` and `data`. An object has its
        `kind`, such as `Client`, and the names of its kind, such as `dst_chain_id`."""
        for worker in self._state.workers:
            object = self._object(worker.object)
            yield SimpleNamespace(id=worker.id, object=object, data=worker.data)

    def _object(self, object: Any) -> Any:
        kind, value = type(object).__name__.removeprefix("Object_"), object.value
        if kind == "Other":
            return SimpleNamespace(kind=self._names[value.kind], fields=value.fields)
        names = {field: self._names[name] for field, name in vars(value).items()}
        return SimpleNamespace(kind=kind, **names)
