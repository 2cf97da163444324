"""Applications for tests, with settings that fit their disciplines, and what may be wrong with a run of them."""

from __future__ import annotations

from msgspec.structs import replace

from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.model.application import TIMED, Application, Discipline
from delivery_verifier.model.scenario import Scenario
from support.evidence import SUBJECT, Change, Rows, both, setting


def application(discipline: Discipline = "commit_after") -> Application:
    """Returns an application with the discipline, whose consumers state every setting. Those of a user application are
    unknown."""
    if discipline == "own":
        return Application(name="sink", summary="", discipline="own", consumer={})
    commit, store = TIMED[discipline]
    consumer: dict[str, str | int | bool] = {
        "auto.offset.reset": "earliest",
        "enable.auto.commit": commit,
        "enable.auto.offset.store": store,
        "isolation.level": "read_committed",
        "session.timeout.ms": 6000,
    }
    producer = APPLICATIONS[discipline].producer
    return Application(name=discipline, summary="", discipline=discipline, consumer=consumer, producer=producer)


def applied(plain: Scenario, discipline: Discipline = "commit_after") -> Scenario:
    """Returns the scenario with an application behind each arm but the canary."""
    arms = [arm if arm.role == "canary" else replace(arm, application=application(discipline)) for arm in plain.arms]
    return replace(plain, arms=tuple(arms))


EFFECTS, PRODUCERS, INVARIANTS = "counts/effects.parquet", "counts/producers.parquet", "counts/invariants.parquet"


def without(table: str, **where: object) -> Change:
    """Returns a change that removes the rows of `table` that match `where`."""

    def change(rows: Rows) -> None:
        rows[table] = [row for row in rows[table] if any(row[key] != wanted for key, wanted in where.items())]

    return change


def undrained(partition: int, skipped: int = 0) -> Change:
    """Returns a change after which no marker was applied in a partition of the subject, and 9 records are pending.

    `skipped` of them count as SKIPPED instead.
    """
    return both(
        setting(EFFECTS, "drained", 0, arm=SUBJECT, partition=partition),
        setting(EFFECTS, "pending", 9 - skipped, arm=SUBJECT, partition=partition),
        setting(EFFECTS, "applied", 391, arm=SUBJECT, partition=partition),
        setting(PRODUCERS, "skipped", skipped, arm=SUBJECT, producer=0, partition=partition),
    )


DEFECTS: dict[str, tuple[str, Change]] = {
    "skipped of the canary not found": ("canary_wrong", setting(PRODUCERS, "skipped", 0, arm="canary", producer=0)),
    "ghosts of the canary not found": ("canary_wrong", setting(PRODUCERS, "ghost", 0, arm="canary", producer=0)),
    "no effects of the canary": ("canary_wrong", without(EFFECTS, arm="canary")),
    "effects cut short": ("effects_incomplete", setting(INVARIANTS, "left", 8, invariant="effects_read", arm=SUBJECT)),
    "effects in no column": ("counts_unbalanced", setting(INVARIANTS, "left", 8, invariant="effects_sum", arm=SUBJECT)),
    "an incarnation that nobody saw": (
        "counts_unbalanced",
        setting(INVARIANTS, "left", 8, invariant="incarnations", arm=SUBJECT),
    ),
    "incarnations that nobody compared": (
        "invariant_missing",
        without(INVARIANTS, invariant="incarnations", arm=SUBJECT),
    ),
    "a marker that was not applied": ("not_drained", undrained(1)),
    "skipped before the end": ("skipped_too_early", undrained(1, skipped=9)),
    "applied only after the load": (
        "application_idle",
        both(*[setting(EFFECTS, "in_time", 0, arm=SUBJECT, partition=at) for at in range(3)]),
    ),
    "an effect of no record": ("effects_unparsed", setting(EFFECTS, "unparsed", 1, arm=SUBJECT, partition=0)),
}
"""What may be wrong with the counts of a run whose subject has an application: each with the doubt that it must raise,
up to the first colon. None of them may be HELD or VIOLATED."""
