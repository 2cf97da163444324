"""The application: the program behind an arm's topic, which consumes the records of the topic and applies them.

To *apply* a record is to bring about its effect, e.g. to write a row. An application consists of *members*: processes
of one consumer group. A member that is killed and started again begins another *incarnation*. A member works on records
in *batches*. A batch is in progress from the time when the client hands the batch over until the member has finished
its work on the batch. With most disciplines, this work ends when the batch is applied. With `commit_after`, and with a
transform that does not commit first, the work ends when the batch is applied and committed.

A *transform* applies a record by writing it to an *output topic*. The written record is the effect.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from delivery_verifier.model.client import Client, VersionedClient, versioned
from delivery_verifier.model.data import Data, Name, Setting
from delivery_verifier.model.sink_location import EffectsKind

Discipline = Literal[
    "at_handover",
    "commit_first",
    "commit_after",
    "store_after",
    "transform_first",
    "transform",
    "transform_transactional",
    "transform_assigned",
    "transform_fenced",
    "database_apart",
    "database_together",
    "database_compared",
    "own",
]
"""The way in which an application commits the offset of a record, e.g. before or after it applies the record. After the
commit, the application does not ask for the record again. `DISCIPLINES` explains each discipline."""

DISCIPLINES: dict[Discipline, str] = {
    "at_handover": "librdkafka's defaults: a timer commits what was handed over, whether or not it was applied",
    "commit_first": "commits the offsets of a batch, waits for the answer, and then applies the batch",
    "commit_after": "applies a batch, and then commits its offsets and waits for the answer",
    "store_after": "applies a record, and then stores its offset, which a timer commits",
    "transform_first": "commits the offsets of a batch, and then writes the batch to an output topic",
    "transform": "writes a batch to an output topic, waits for the acknowledgements, and then commits its offsets",
    "transform_transactional": "writes a batch to an output topic and commits its offsets in one transaction; "
    "subscribes, with a transactional.id for each member",
    "transform_assigned": "as transform_transactional, but assigns all partitions to itself; a process that takes its "
    "place has a transactional.id of its own",
    "transform_fenced": "as transform_assigned, but a process that takes its place has the same transactional.id",
    "database_apart": "writes the rows of a batch to its database in a transaction, and then the offset in another",
    "database_together": "writes the rows of a batch and the offset to its database in one transaction",
    "database_compared": "as database_together, and only if the offset in the database is still the one from which "
    "the member started",
    "own": "a command of the user's own: when it commits is unknown, and the claim alone says what must hold",
}
"""Every discipline, with its meaning."""

CrashPoint = Literal[
    "polled",
    "committed_first",
    "applied",
    "produced",
    "offsets_sent",
    "ending",
    "rows_committed",
    "offset_written",
    "committed",
]
"""A named place in a member's work on a batch. A member that is told to park there stands still at this place."""

CRASH_POINTS: dict[CrashPoint, str] = {
    "polled": "the batch is in progress, and nothing of it was committed by the member or applied",
    "committed_first": "the offsets of the batch are committed, and nothing of it was applied (commit_first, "
    "transform_first; any other discipline stands at polled)",
    "applied": "the given number of records of the batch are applied, and nothing was done since (a transform has "
    "given them to its client, and waits for no acknowledgement)",
    "produced": "all records of the batch are in the output topic and acknowledged, and nothing was done since",
    "offsets_sent": "the offsets of the batch are in the transaction, which is open (transforms with transactions; any "
    "other discipline stands at produced)",
    "ending": "the member asks for the end of the transaction and waits for the answer: it does not stand still by "
    "itself, the proxy must drop the request or the answer (transforms with transactions; any other discipline stands "
    "at produced)",
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
    "transform_first": (False, False),
    "transform": (False, False),
    "transform_transactional": (False, False),
    "transform_assigned": (False, False),
    "transform_fenced": (False, False),
    "database_apart": (False, False),
    "database_together": (False, False),
    "database_compared": (False, False),
}
"""Maps a discipline to the values that enable.auto.commit and enable.auto.offset.store must have. The settings of an
`own` application are unknown."""


SinkKind = Literal[
    "slots",
    "topic",
    "table",
    "own",
]
"""A kind of sink, i.e. where effects land. `slots`: files of the verifier, to which members write one slot of 64 bytes
for each record. `topic`: an output topic, which is read back with isolation.level=read_committed. `table`: a table of
an SQLite database, with one row for each effect. `own`: the place to which an application of the user's own writes (see
EffectsKind)."""

SINKS: dict[Discipline, SinkKind] = {
    "at_handover": "slots",
    "commit_first": "slots",
    "commit_after": "slots",
    "store_after": "slots",
    "transform_first": "topic",
    "transform": "topic",
    "transform_transactional": "topic",
    "transform_assigned": "topic",
    "transform_fenced": "topic",
    "database_apart": "table",
    "database_together": "table",
    "database_compared": "table",
    "own": "own",
}
"""Maps a discipline to the kind of sink that its applications have."""


WRITTEN_WITH: dict[str, str] = {"acks": "all", "enable.idempotence": "true"}
"""The producer settings that every transform must have. With weaker settings, the output topic could lose or double
records for reasons about which the contract has no rules."""
STORED: tuple[Discipline, ...] = ("database_apart", "database_together", "database_compared")
"""The disciplines whose offsets are in the application's database. A member starts from the offsets in the database,
and not from the offsets of its group."""
ASSIGNED: tuple[Discipline, ...] = ("transform_assigned", "transform_fenced")
"""The disciplines whose members assign partitions to themselves instead of subscribing. So their group has no members
and no generations."""
IN_TRANSACTIONS: tuple[Discipline, ...] = ("transform_transactional", *ASSIGNED)
"""The disciplines that write to an output topic in transactions."""

IN_GROUP: tuple[Discipline, ...] = tuple(kind for kind in SINKS if kind not in (*STORED, "own"))
"""The disciplines that keep their offsets only in the group. `own` is not among them, because a program of the user's
own may keep its offsets anywhere."""


def output_topic(topic: str) -> str:
    """Returns the name of the output topic of the transform that consumes `topic`."""
    return f"{topic}-out"


def member_client_id(arm: str, member: int) -> str:
    """Returns the client.id of the consumer of member number `member` of the arm's application. A member of a user
    application (a program of the user's own) chooses its client.id itself."""
    return f"{arm}-member-{member}"


class Application(Data, frozen=True):
    """The application of an arm.

    * `consumer`, `producer`: map Kafka's names of settings to values. Only a transform has producer settings.
    * `members`: the number of processes. `batch`: the greatest number of records in a batch.
    * `effects`: the kind of place where the effects of an `own` application land. Empty for every other discipline.
    * `client`, `client_version`: the library with which members consume and write, and its version. Empty: the default
      version. The settings have librdkafka's names with every client. Of an `own` application, neither is known.

    An application with the discipline `own` is a program of the user's own. `consumer` is then empty, and `name` is the
    name of a file on the host of the run (see `user_application`).
    """

    name: Name
    summary: str
    discipline: Discipline
    consumer: dict[str, Setting]
    members: Annotated[int, Meta(ge=1, le=16)] = 1
    batch: Annotated[int, Meta(ge=1, le=1000)] = 10
    producer: dict[str, Setting] = {}
    effects: EffectsKind | Literal[""] = ""
    client: Client = "librdkafka"
    client_version: str = ""

    @property
    def versioned_client(self) -> VersionedClient:
        """The client of the members, with its version."""
        return versioned(self.client, self.client_version)

    @property
    def title(self) -> str:
        """The application in tables: its name, and its client if that is not the installed librdkafka."""
        client = self.versioned_client
        return self.name if client == VersionedClient() else f"{self.name} with {client.words}"

    @property
    def has_output_topic(self) -> bool:
        """Whether the effects of the application are records of an output topic."""
        return SINKS[self.discipline] == "topic" or self.effects == "topic"

    @property
    def transactional_id(self) -> str:
        """The transactional.id in the producer settings, from which each member derives a transactional.id of its own.
        Empty if the application writes no transactions."""
        return str(self.producer.get("transactional.id", ""))
