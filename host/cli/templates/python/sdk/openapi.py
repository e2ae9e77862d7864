"""Adds `openapi.json`, the declaration of the routes, to a module: `python3 sdk/openapi.py FILE.wasm`."""

import sys
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parent.parent / "openapi.json"


def number(value: int) -> bytes:
    """Returns a number as LEB128."""
    return bytes([value]) if value < 128 else bytes([value % 128 | 128]) + number(value // 128)


if __name__ == "__main__" and DOCUMENT.exists():
    name = b"openapi"
    section = bytes([len(name)]) + name + DOCUMENT.read_bytes()
    # A custom section can be at the end of a component.
    with open(sys.argv[1], "ab") as module:
        module.write(bytes([0]) + number(len(section)) + section)
