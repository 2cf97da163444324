"""The filter of the page of all runs, read off its query parameters."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from delivery_verifier.pages.overview.rows import NO_VERDICT, StoredRunRow

VERDICTS = ("HELD", "VIOLATED", "INCONCLUSIVE", NO_VERDICT)


class RunFilter(Struct, frozen=True, kw_only=True):
    """What a run must match to be listed. An empty field matches every run.

    Each word of `text` must occur in the name, scenario, fault, profiles, verdict, sentence or reason of the run.
    """

    verdict: str = ""
    profile: str = ""
    fault: str = ""
    text: str = ""

    @property
    def is_set(self) -> bool:
        """Whether any field is not empty."""
        return any((self.verdict, self.profile, self.fault, self.text.strip()))

    def matching(self, rows: Iterable[StoredRunRow]) -> list[StoredRunRow]:
        """The rows that match, in their order."""
        return [row for row in rows if self._matches(row)]

    def _matches(self, row: StoredRunRow) -> bool:
        return (
            self.verdict in ("", row.verdict)
            and (not self.profile or self.profile in row.profiles)
            and self.fault in ("", row.fault)
            and all(word in _text(row) for word in self.text.casefold().split())
        )


def _text(row: StoredRunRow) -> str:
    return " ".join([row.name, row.scenario, row.fault, *row.profiles, row.verdict, row.sentence, row.why]).casefold()
