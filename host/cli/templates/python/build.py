"""Builds MODULE, with the tools of `requirements.txt`, which it installs into `.venv`."""

import os
import subprocess
import sys
import venv
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
REQUIREMENTS = FOLDER / "requirements.txt"
VENV = FOLDER / ".venv"
INSTALLED = VENV / "requirements.txt"
BIN = VENV / ("Scripts" if sys.platform == "win32" else "bin")


def run(tool: str, *arguments: str) -> None:
    """Runs a tool of the venv in the folder. If it fails, exits with its status."""
    environment = {**os.environ, "VIRTUAL_ENV": str(VENV)}
    status = subprocess.run([BIN / tool, *arguments], cwd=FOLDER, env=environment).returncode
    if status:
        sys.exit(status)


if not INSTALLED.exists() or INSTALLED.read_bytes() != REQUIREMENTS.read_bytes():
    if not (VENV / "pyvenv.cfg").exists():
        venv.create(VENV, with_pip=True)
    run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--requirement", "requirements.txt")
    INSTALLED.write_bytes(REQUIREMENTS.read_bytes())
run("componentize-py", "--quiet", "--wit-path", "wit", "--world", "module",
    "componentize", "--output", "MODULE", "app")
run("python", "sdk/openapi.py", "MODULE")
