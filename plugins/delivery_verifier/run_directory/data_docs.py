"""What Data Docs, the site of Great Expectations, keep of a run: its results and its pages.

`expectations.validation` writes them. Each validation lists the results of all runs, so it takes longer the more of
them there are: whoever removes a run makes Data Docs forget it.
"""

from __future__ import annotations

import logging
import re
import shutil
from pathlib import Path

from filelock import FileLock, Timeout

from delivery_verifier.host import folders

LOCK = f".{folders.DATA_DOCS}.lock"
"""The name of the lock beside the site. Who writes or removes parts of the site holds it."""
LOCK_S = 10.0
"""How long to wait for the lock before a removal, in seconds."""
_PARTS = (".results/*/{}", "validations/*/{}")
"""The folders of one run below the site: first its results, which the next index lists, then its pages."""
_log = logging.getLogger(__name__)


def name_of(run: str) -> str:
    """Returns the name of the run `run` in Data Docs."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", run)


def forget(run: Path) -> None:
    """Removes what Data Docs keep of the run whose directory is or was `run`. The index page lists it until the next
    validation. If another process writes the site for longer than LOCK_S seconds, removes nothing, and logs this.

    Raises OSError if something cannot be removed."""
    site = run.parent / folders.DATA_DOCS
    parts = [path for part in _PARTS for path in site.glob(part.format(name_of(run.name))) if path.is_dir()]
    if not parts:
        return
    try:
        with FileLock(run.parent / LOCK, timeout=LOCK_S):
            for path in parts:
                shutil.rmtree(path)
    except Timeout:
        _log.warning("Data Docs still list %s: another process writes them", run.name)
