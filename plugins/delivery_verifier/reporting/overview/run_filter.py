"""The filter of the page of all runs. The query parameters of the page's address are the fields of the filter."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from delivery_verifier.reporting.overview.rows import NO_VERDICT, QUEUED, RUNNING, StoredRunRow

VERDICTS = ("HELD", "VIOLATED", "INCONCLUSIVE", NO_VERDICT, RUNNING, QUEUED)


class RunFilter(Struct, frozen=True, kw_only=True):
    """The conditions that a run must meet to be listed. An empty field sets no condition.

    `verdict`: the verdict of the run. `profile`: the profile of at least one subject. `fault`: the name of the fault
    plan. `kafka`: the Kafka version under test. `text`: words, each of which must occur in the name, scenario, fault,
    profiles, Kafka version, verdict, sentence or `why` of the run's row. Upper and lower case do not matter.
    """

    verdict: str = ""
    profile: str = ""
    fault: str = ""
    kafka: str = ""
    text: str = ""

    @property
    def is_set(self) -> bool:
        """Returns whether the filter sets at least one condition."""
        return any((self.verdict, self.profile, self.fault, self.kafka, self.text.strip()))

    def matching(self, rows: Iterable[StoredRunRow]) -> list[StoredRunRow]:
        """Returns the rows that meet the conditions, in the order of `rows`."""
        return [row for row in rows if self._matches(row)]

    def _matches(self, row: StoredRunRow) -> bool:
        return (
            self.verdict in ("", row.verdict)
            and (not self.profile or self.profile in row.profiles)
            and self.fault in ("", row.fault)
            and self.kafka in ("", row.kafka_version)
            and all(word in _text(row) for word in self.text.casefold().split())
        )


def _text(row: StoredRunRow) -> str:
    words = [row.name, row.scenario, row.fault, *row.profiles, row.kafka_version, row.verdict, row.sentence, row.why]
    return " ".join(words).casefold()
