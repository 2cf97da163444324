"""Files that decide what is run as this user: only this user, or root, may write them, or replace them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from delivery_verifier.model.inputs import BadInput


def require_owned(path: Path) -> None:
    """Raises BadInput if another user may write `path`, may replace it, or may replace what it links to. In a folder
    with the sticky bit, only its owner may replace a file. Raises BadInput, too, if `path` cannot be looked at."""
    try:
        for folder in _folders(path):
            _require_owned(folder, folder.stat(), sticky=True)
        _require_owned(path, path.stat())
    except OSError as error:
        raise _unreadable(path, error) from None


def content_of_owned(path: Path) -> bytes:
    """Returns the content of `path`. Raises BadInput as `require_owned` does, and if it cannot be read."""
    require_owned(path)
    try:
        with path.open("rb") as stream:
            _require_owned(path, os.fstat(stream.fileno()))
            return stream.read()
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> BadInput:
    return BadInput(f"{path} cannot be read ({error.strerror}); allowed: a file that this user can read")


def _folders(path: Path) -> Iterator[Path]:
    """Yields each folder on the way to `path`, and on the way from each link to what it links to."""
    way = path.absolute()
    while True:
        real = way.parent.resolve()
        yield from (real, *real.parents)
        if not way.is_symlink():
            return
        way = real / way.readlink()


def _require_owned(path: Path, status: os.stat_result, *, sticky: bool = False) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o022 and not (sticky and mode & stat.S_ISVTX):
        raise BadInput(
            f"{path} has mode {mode:04o}, so others may write it, and with it start programs as you; "
            f"remedy: chmod go-w {path}"
        )
    if status.st_uid not in (os.geteuid(), 0):
        raise BadInput(f"{path} belongs to another user; allowed: your own, or root's; remedy: chown it")
