"""Changes a lock file to the versions of another one, where they are compatible:
same_versions.py FOLDER CHANGED_FOLDER"""

import subprocess
import sys
import tomllib


def versions(folder):
    with open(f"{folder}/Cargo.lock", "rb") as lock:
        packages = tomllib.load(lock)["package"]
    return {(package["name"], package["version"]) for package in packages if "source" in package}


def compatible(version):
    """The part of a version that is the same in all compatible versions."""
    parts = version.split("+")[0].split(".")
    significant = next((index for index, part in enumerate(parts) if part != "0"), 2)
    return parts[: significant + 1]


folder, changed = sys.argv[1:]
for name, version in sorted(versions(folder)):
    # Each change may change other crates, too.
    present = versions(changed)
    if (name, version) in present:
        continue
    for other_name, other in sorted(present):
        if other_name == name and compatible(other) == compatible(version):
            spec = f"{name}@{other}"
            command = ["cargo", "update", "--quiet", "--package", spec, "--precise", version.split("+")[0]]
            # A crate that needs a newer version keeps it, and is built by itself.
            subprocess.run(command, cwd=changed, check=False)
