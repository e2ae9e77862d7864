"""The parts of the contract in `wit/` that a fake host needs."""

import re
from collections.abc import Iterable
from pathlib import Path

_FOLDER = Path(__file__).parent.parent / "wit"


def imports() -> list[str]:
    """Returns the names of the interfaces that `wit/world.wit` imports."""
    text = (_FOLDER / "world.wit").read_text("utf-8")
    return re.findall(r"^\s*import relayer:rest/([a-z]+)@[\d.]+;", text, re.MULTILINE)


def fields(record: str) -> dict[str, str]:
    """Returns the fields of a record, with their types in WIT."""
    found = re.findall(r"^ +([a-z0-9-]+): (.*),$", _body(f"record {record}"), re.MULTILINE)
    return {name.replace("-", "_"): type for name, type in found}


def cases(name: str) -> dict[str, str]:
    """Returns the cases of a variant or an enum, such as `CrossChainQuery`, with the types of
    their values, which are empty without one."""
    found = re.findall(r"^ +([a-z0-9-]+)(?:\((.*)\))?,$", _body(f"(?:variant|enum) {name}"), re.MULTILINE)
    return {case.title().replace("-", ""): type for case, type in found}


def check(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises an exception if the contract does not know one of the given names."""
    known = [*known]
    for name in given:
        if name not in known:
            raise TypeError(f"{what} {name}: not in the contract; expected {', '.join(known)}")


def _body(declaration: str) -> str:
    text = (_FOLDER / "deps" / "relayer-rest" / "types.wit").read_text("utf-8")
    found = re.search(rf"^    {declaration} {{\n(.*?)^    }}", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{declaration}: not in the contract"
    return found[1]
