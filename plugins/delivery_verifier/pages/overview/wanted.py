"""Which runs are wanted: the filter of the page, read off its query parameters."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from delivery_verifier.pages.overview.rows import NO_VERDICT, StoredRunRow

VERDICTS = ("HELD", "VIOLATED", "INCONCLUSIVE", NO_VERDICT)


class Wanted(Struct, frozen=True, kw_only=True):
    """A field that is empty leaves nothing out. `text` looks in name, scenario, fault, profiles and sentence."""

    verdict: str = ""
    profile: str = ""
    fault: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return any((self.verdict, self.profile, self.fault, self.text.strip()))

    def of(self, listed: Iterable[StoredRunRow]) -> list[StoredRunRow]:
        """The wanted rows, in their order."""
        return [row for row in listed if self._wants(row)]

    def _wants(self, row: StoredRunRow) -> bool:
        return (
            self.verdict in ("", row.verdict)
            and (not self.profile or self.profile in row.profiles)
            and self.fault in ("", row.fault)
            and all(word in _text(row) for word in self.text.casefold().split())
        )


def _text(row: StoredRunRow) -> str:
    return " ".join([row.name, row.scenario, row.fault, *row.profiles, row.verdict, row.sentence, row.why]).casefold()
