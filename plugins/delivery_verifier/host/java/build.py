"""A tool for maintainers: compiles the Java programs of this project, and writes down what the classes come from.

Run `python -m delivery_verifier.host.java.build` with a JDK on PATH after each change of a source. Users compile
nothing: the classes are part of the package. Beside a source `NAME.java` stand its classes, and NAME.json with the
compiler and the checksums.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from delivery_verifier.host.java.jars import DEFAULT_KAFKA, java_client_jars

SOURCES = sorted(Path(__file__).parents[2].rglob("*.java"))
"""The sources of all Java programs of this project."""
RELEASE = "17"
"""The oldest Java on which the classes run."""


def compiled(source: Path, folder: Path) -> None:
    """Compiles `source` into `folder`. Raises CalledProcessError if the source is wrong."""
    classpath = ":".join(map(str, java_client_jars(DEFAULT_KAFKA)))
    options = ("--release", RELEASE, "-Xlint:all", "-Werror", "-proc:none", "-g:none", "-cp", classpath)
    subprocess.run(["javac", *options, "-d", folder, source], check=True)


def compiler() -> str:
    """Returns the version of the compiler on PATH, e.g. `javac 17.0.15`."""
    return subprocess.run(["javac", "-version"], check=True, capture_output=True, text=True).stdout.strip()


def digests(source: Path, folder: Path) -> dict[str, str]:
    """Maps the source, and each of its classes in `folder`, to its SHA-256."""
    files = [source, *classes(source, folder)]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def classes(source: Path, folder: Path) -> list[Path]:
    """Returns the files in `folder` with the classes of `source`."""
    return sorted(folder.glob(f"{source.stem}*.class"))


def record_of(source: Path) -> Path:
    """Returns the file that says what the classes of `source` were made from."""
    return source.with_suffix(".json")


def main() -> int:
    """Compiles every source, and records compiler and checksums. Returns the exit code."""
    for source in SOURCES:
        for file in classes(source, source.parent):
            file.unlink()
        compiled(source, source.parent)
        built = {"compiler": compiler(), "sha256": digests(source, source.parent)}
        record_of(source).write_text(json.dumps(built, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
