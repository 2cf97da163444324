"""Explains consumers: which guarantee an application gives between the topic and its effects, and which rules say
so."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Literal, get_args

from msgspec import Struct

from delivery_verifier import catalogue
from delivery_verifier.catalogue.applications import application_lines, in_order, name_and_discipline
from delivery_verifier.contract.guarantees import GUARANTEES, FaultClass, GuaranteeRow, lines
from delivery_verifier.contract.rulings import Ruling, contract
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import EFFECTS, Anomaly, subset
from delivery_verifier.model.application import DISCIPLINES, Application, Discipline
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.data import Setting, setting_text

Grade = Literal["exactly_once", "at_least_once", "at_most_once", "none"]
"""The guarantee that a consumer gives: the first in this list that holds."""

MEANINGS: dict[Grade, str] = subset(
    "a guarantee of a consumer is one of these; the contract and the order have rows of their own",
    {
        "exactly_once": "every record that consumers see is applied once",
        "at_least_once": "no record that consumers see is skipped; some may be applied again",
        "at_most_once": "no record is applied again; some may be skipped",
        "none": "some records may be skipped, and some applied again",
    },
)

TROUBLES: tuple[FaultClass, ...] = (
    FaultClass(name="quiet day", summary="no fault: only rebalances, which a late heartbeat can cause"),
    FaultClass(name="member killed", summary="a member ends with records in progress", kinds=("application_crash",)),
    FaultClass(name="member frozen", summary="a member stands still, and goes on later", kinds=("application_freeze",)),
)
"""The troubles of a consumer itself, as classes of faults. They decide which guarantee the consumer has."""

SITUATIONS: tuple[FaultClass, ...] = (
    *TROUBLES,
    FaultClass(name="group set back", summary="an operator sets the group's offsets back", kinds=("rewind",)),
    FaultClass(
        name="log cut off",
        summary="the log loses records that consumers had been given",
        kinds=("unclean_election", "isr_power_loss"),
        replicas=3,
    ),
)
"""What may befall an application, as classes of faults: troubles of the consumer, of its group and of the log."""


class ConsumerExplanation(Struct, frozen=True, kw_only=True):
    """The guarantee that a consumer gives, as `kdv explain --json` prints it.

    * `name`: the name of the application; `own` for consumer settings of the user's own.
    * `condition`: what must be true of the user's code for this discipline; empty for an application of the catalogue.
    * `defaults`: the names in `consumer` that the user's file does not set. Their values are the client's defaults.
    * `gives`: the guarantee that always holds: without a fault, and when members are killed or stand still.
    * `from_the_start`: the value that `gives` would have with auto.offset.reset=earliest.
    * `situations`: for each of SITUATIONS, which guarantees hold, and the rules that break the others.
    * `rulings`: for each anomaly of effects, whether it is permitted when members are killed or stand still.
    """

    name: str
    discipline: Discipline
    meaning: str
    condition: str
    consumer: dict[str, Setting]
    defaults: tuple[str, ...] = ()
    gives: Grade
    from_the_start: Grade
    situations: list[GuaranteeRow]
    rulings: list[Ruling]


def explain(settings: Settings, application: Application, condition: str = "") -> ConsumerExplanation:
    """Returns the explanation of `application` in an arm with `settings`: the guarantee that the application gives, and
    the rules. `condition` is copied to the explanation (see ConsumerExplanation)."""
    consumed = settings.consumed_by(application)
    earliest = dataclasses.replace(consumed, auto_offset_reset="earliest")
    rulings = contract(consumed, [disturbance for trouble in TROUBLES for disturbance in trouble.disturbances])
    return ConsumerExplanation(
        name=application.name,
        discipline=application.discipline,
        meaning=DISCIPLINES[application.discipline],
        condition=condition,
        consumer=application.consumer,
        gives=_grade([_row(consumed, trouble) for trouble in TROUBLES]),
        from_the_start=_grade([_row(earliest, trouble) for trouble in TROUBLES]),
        situations=[_row(consumed, situation) for situation in SITUATIONS],
        rulings=[rulings[anomaly] for anomaly in EFFECTS],
    )


def _row(settings: Settings, situation: FaultClass) -> GuaranteeRow:
    rulings = contract(settings, situation.disturbances)
    permitted = {anomaly for anomaly in EFFECTS if rulings[anomaly].ruling == "PERMITTED"}
    return GuaranteeRow(
        fault_class=situation.name,
        summary=situation.summary,
        disturbances=list(situation.kinds),
        guarantees={claim: not permitted & set(CLAIMS[claim].forbids) for claim in GUARANTEES},
        broken_by=[rulings[anomaly].rule for anomaly in Anomaly if anomaly in permitted],
    )


def _grade(rows: Sequence[GuaranteeRow]) -> Grade:
    holding = {claim for claim in GUARANTEES if all(row.guarantees[claim] for row in rows)}
    return next(grade for grade in get_args(Grade) if grade in holding or grade == "none")


def listing() -> Iterator[str]:
    """Yields lines about each application of the catalogue: its name, guarantee, discipline and consumer settings."""
    settings = Settings.of_profile(catalogue.PROFILES["safe"])
    for application in catalogue.APPLICATIONS.values():
        grade = explain(settings, application).gives
        yield f"{application.name:<18} {application.summary}"
        yield f"{'':<18} {_promise(grade)}"
        for line in application_lines(application):
            yield from (f"{'':<18} {part}" for part in wrap(line, 101, break_on_hyphens=False, break_long_words=False))


def text_lines(explanation: ConsumerExplanation) -> list[str]:
    """Returns an explanation as lines for a person. Shows two kinds of rulings, and no others: rulings that permit an
    anomaly, and rulings on anomalies that the guarantee excludes."""
    settings = [
        f"           {name}={setting_text(value)}{' (the default)' if name in explanation.defaults else ''}"
        for name, value in in_order(explanation.consumer).items()
    ]
    needed = () if explanation.gives == "none" else CLAIMS[explanation.gives].forbids
    shown = [each for each in explanation.rulings if each.ruling == "PERMITTED" or each.anomaly in needed]
    notes = [explanation.condition] if explanation.condition else []
    if explanation.gives != explanation.from_the_start:
        notes.append(f"with auto.offset.reset=earliest it {_promise(explanation.from_the_start)}")
    return [
        f"consumer   {name_and_discipline(explanation.name, explanation.discipline)}: {explanation.meaning}",
        *settings,
        f"           {_promise(explanation.gives)}",
        *(f"           {note}" for note in notes),
        *lines(explanation.situations),
        *ruling_lines(shown),
    ]


def _promise(grade: Grade) -> str:
    what = "neither at_least_once nor at_most_once" if grade == "none" else grade
    return f"promises {what}: {MEANINGS[grade]}"


def ruling_lines(rulings: Sequence[Ruling]) -> list[str]:
    """Returns two lines for each ruling. The first says whether the ruling forbids or permits the anomaly. The second
    names the rule and its source."""
    rows = []
    for ruling in rulings:
        rows += [
            f"  {ruling.anomaly:<15} {ruling.ruling:<10} {ruling.sentence}",
            f"{'':29}{ruling.rule}; {ruling.source}",
        ]
    return rows
