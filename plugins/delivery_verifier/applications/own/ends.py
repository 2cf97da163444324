"""The end of an incarnation of an own member (a process of the user application). At this end, the verifier counts the
effects of the member, and keeps the last part of what the incarnation printed, without secrets."""

from __future__ import annotations

import signal

from msgspec.structs import replace

from delivery_verifier.applications.control import Word
from delivery_verifier.applications.incarnations import IncarnationEnd, incarnations_of, read_end, write_end
from delivery_verifier.applications.own.described import pattern_of
from delivery_verifier.applications.own.process import Progress, keep_output, last_words
from delivery_verifier.model.history import now_us

ORDERLY = (0, 128 + signal.SIGTERM, -signal.SIGTERM)
"""The exit codes of an own member that was stopped in an orderly way: 0, or one of the two codes for SIGTERM. A shell
reports 128 + 15 for a child that ended by this signal. Python reports -15."""


def end_of_own(progress: Progress, end: IncarnationEnd) -> None:
    """Writes down how the latest incarnation of an own member (a process of the user application) ended. Sets
    Word.APPLIED to the number of effects of this incarnation.

    `end` says by what the incarnation ended. Its other fields are replaced. If all members write to one place, its
    effects are counted for member 0 only.
    """
    folder, control = progress.folder, progress.control
    *earlier, incarnation = incarnations_of(folder).values()
    keep_output(progress.location, incarnation, progress.secrets.texts)
    if not progress.has_effects:
        control[Word.APPLIED] = 0
        write_end(incarnation, replace(end, applied=0, ended_us=now_us()))
        return
    total = progress.reader.count(pattern_of(progress.inputs, progress.location))
    progress.reader.keep()
    control[Word.APPLIED] = max(total - (read_end(earlier[-1]).applied if earlier else 0), 0)
    write_end(incarnation, replace(end, applied=total, ended_us=now_us(), sizes=progress.reader.sizes()))


def describe_end(progress: Progress) -> str:
    """Returns the last words that a member printed before it ended by itself. Secrets are removed from the kept output
    first."""
    *_, incarnation = incarnations_of(progress.folder).values()
    keep_output(progress.location, incarnation, progress.secrets.texts)
    return last_words(incarnation)
