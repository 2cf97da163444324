"""Optional work: pages, the clean-up, and all other work on which no verdict rests.

Such work may fail, and it may hang. Neither may take away the verdict of a run whose evidence is complete.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)


def optional(name: str, work: Callable[[], object], within_s: float) -> str:
    """Calls `work` in another thread, and waits at most `within_s` seconds for its end.

    Returns an empty text if `work` ended without an error. Otherwise logs a warning with the `name` of the work, and
    returns the reason. Ctrl-C ends the wait as usual. Work that hangs keeps its thread until the process ends, so it
    must not change anything on which a verdict rests.
    """
    errors: list[BaseException] = []

    def attempt() -> None:
        try:
            work()
        except BaseException as error:  # whatever it is, the caller goes on
            errors.append(error)

    thread = threading.Thread(target=attempt, name=name, daemon=True)
    thread.start()
    thread.join(within_s)
    if thread.is_alive():
        return warned(name, f"it did not end within {within_s:g} s")
    return warned(name, errors[0]) if errors else ""


def warned(name: str, reason: BaseException | str) -> str:
    """Logs the warning that the optional work `name` failed. Returns the reason as text."""
    text = reason if isinstance(reason, str) else f"{type(reason).__name__}: {reason}".removesuffix(": ")
    _log.warning("warning: %s failed: %s. No verdict rests on it.", name, text)
    return text
