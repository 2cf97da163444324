"""Files that only their owner may read, because they hold secrets."""

from __future__ import annotations

import os
from pathlib import Path

MODE = 0o600


def write(file: Path, data: bytes) -> None:
    """Writes `data` into `file`, which nobody but its owner can read at any moment. Replaces a file that is there,
    whatever its mode, and a link, but not what the link points at."""
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "wb") as stream:
        os.fchmod(stream.fileno(), MODE)  # a umask can only take rights away
        stream.write(data)
