"""A tool for maintainers: compiles `LoadClient.java`, and writes down what the classes were made from.

Run `python -m delivery_verifier.load.java.build` with a JDK on PATH after each change of the source. Users compile
nothing: the classes are part of the package.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from delivery_verifier.host.java.jars import java_client_jars
from delivery_verifier.model.client import CLIENTS

FOLDER = Path(__file__).parent
SOURCE, BUILT = FOLDER / "LoadClient.java", FOLDER / "LoadClient.json"
RELEASE = "17"
"""The oldest Java on which the classes run."""


def compiled(folder: Path) -> None:
    """Compiles the source into `folder`. Raises CalledProcessError if the source is wrong."""
    classpath = ":".join(map(str, java_client_jars(CLIENTS["java"].default)))
    options = ("--release", RELEASE, "-Xlint:all", "-Werror", "-proc:none", "-g:none", "-cp", classpath)
    subprocess.run(["javac", *options, "-d", folder, SOURCE], check=True)


def compiler() -> str:
    """Returns the version of the compiler on PATH, e.g. `javac 17.0.15`."""
    return subprocess.run(["javac", "-version"], check=True, capture_output=True, text=True).stdout.strip()


def digests(folder: Path) -> dict[str, str]:
    """Maps the source, and each class in `folder`, to its SHA-256."""
    files = [SOURCE, *sorted(folder.glob("LoadClient*.class"))]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def main() -> int:
    """Compiles the source, and records compiler and checksums. Returns the exit code."""
    for file in FOLDER.glob("LoadClient*.class"):
        file.unlink()
    compiled(FOLDER)
    BUILT.write_text(json.dumps({"compiler": compiler(), "sha256": digests(FOLDER)}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
