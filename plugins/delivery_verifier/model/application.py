"""The application: the program behind an arm's topic, which consumes the records of the topic and applies them.

To *apply* a record is to bring about its effect, e.g. to write a row. An application consists of *members*: processes
of one consumer group. A member that is killed and started again begins another *life*. A member works on records in
*batches*. A batch is in hand from the time when the client hands it over until the member has finished its work on the
batch: until it is applied and, with `commit_after`, committed.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from delivery_verifier.model.data import Data, Name, Setting

Discipline = Literal[
    "at_handover",
    "commit_first",
    "commit_after",
    "store_after",
    "own",
    "database_apart",
    "database_together",
    "database_compared",
]
"""When an application lets go of a record: after that, its group does not ask for the record again. `DISCIPLINES`
explains each discipline."""

DISCIPLINES: dict[Discipline, str] = {
    "at_handover": "librdkafka's defaults: a timer commits what was handed over, whether or not it was applied",
    "commit_first": "commits the offsets of a batch, waits for the answer, and then applies the batch",
    "commit_after": "applies a batch, and then commits its offsets and waits for the answer",
    "store_after": "applies a record, and then stores its offset, which a timer commits",
    "own": "a command of the user's own: when it commits is unknown, and the claim alone says what must hold",
    "database_apart": "writes the rows of a batch to its database in a transaction, and then the offset in another",
    "database_together": "writes the rows of a batch and the offset to its database in one transaction",
    "database_compared": "as database_together, and only if the offset in the database is still the one from which "
    "the member started",
}
"""Every discipline, with its meaning."""

CrashPoint = Literal[
    "polled",
    "committed_first",
    "applied",
    "rows_committed",
    "offset_written",
    "committed",
]
"""A named place in a member's work on a batch. A member that is told to park there stands still at this place."""

CRASH_POINTS: dict[CrashPoint, str] = {
    "polled": "the batch is in hand, and nothing of it was committed by the member or applied",
    "committed_first": "the offsets of the batch are committed, and nothing of it was applied (commit_first; any other "
    "discipline stands at polled)",
    "applied": "so many records of the batch are applied, and nothing was done since",
    "rows_committed": "the whole batch is applied, and its offsets are not written; the rows are committed already if "
    "they have a transaction of their own (database_apart)",
    "offset_written": "the offsets of the batch are written to the database, in a transaction that is not committed "
    "yet (databases; any other discipline stands at rows_committed)",
    "committed": "the batch is applied, and its offsets are committed or stored: a kill takes nothing from it, and is "
    "refused",
}
"""Every crash point, with its meaning."""

REQUIRED = (
    "auto.offset.reset",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "isolation.level",
    "session.timeout.ms",
)
"""The consumer settings on which delivery depends. An application states each of them."""

RESETS = ("earliest", "latest")
"""The allowed values of auto.offset.reset. With any other value, a consumer without a committed offset would end at
once."""

TIMED: dict[str, tuple[bool, bool]] = {
    "at_handover": (True, True),
    "commit_first": (False, False),
    "commit_after": (False, False),
    "store_after": (True, False),
    "database_apart": (False, False),
    "database_together": (False, False),
    "database_compared": (False, False),
}
"""Maps a discipline to the values that enable.auto.commit and enable.auto.offset.store must have. The settings of an
`own` application are unknown."""


SinkKind = Literal[
    "slots",
    "own",
    "table",
]
"""A kind of sink, i.e. where effects land. `slots`: files of the verifier, to which members write one slot of 64 bytes
for each record. `own`: lines or files that an application of the user's own writes. `table`: a table of an SQLite
database, with one row for each effect."""

SINKS: dict[Discipline, SinkKind] = {
    "at_handover": "slots",
    "commit_first": "slots",
    "commit_after": "slots",
    "store_after": "slots",
    "own": "own",
    "database_apart": "table",
    "database_together": "table",
    "database_compared": "table",
}
"""Maps a discipline to the kind of sink that its applications have."""


STORED: tuple[Discipline, ...] = ("database_apart", "database_together", "database_compared")
"""The disciplines whose offsets are in the application's database. A member starts from these offsets, and not from
those of its group."""


class Application(Data, frozen=True):
    """The application of an arm. `consumer` maps Kafka's names of consumer settings to their values.

    `members` is the number of processes. `batch` is the greatest number of records in a batch. If the discipline is
    `own`, `name` is the name of a file on the host of the run (see `own_application`), and `consumer` is empty.
    """

    name: Name
    summary: str
    discipline: Discipline
    consumer: dict[str, Setting]
    members: Annotated[int, Meta(ge=1, le=16)] = 1
    batch: Annotated[int, Meta(ge=1, le=1000)] = 10
