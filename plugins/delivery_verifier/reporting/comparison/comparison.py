"""The comparison: the figures of two runs side by side, and the differences between their scenarios. A comparison gives
no verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from delivery_verifier.catalogue.applications import application_properties
from delivery_verifier.model.client import VersionedClient
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.model.verdict import ArmVerdict, Finding, RunVerdict
from delivery_verifier.reporting.comparison.figures import figures
from delivery_verifier.reporting.material import Material, read
from delivery_verifier.reporting.words import CLIENT, number, producer_properties
from delivery_verifier.run_directory.run_directory import RunDirectory

ABSENT = "–"
"""The text of a figure that a run does not have."""


@dataclass(frozen=True)
class Row:
    """One line of the comparison: a figure of an arm or a property of the scenario, with its value in each of the two
    runs.

    `name`: the name of the figure or property. `left`: its value in the first run as text, or ABSENT. `right`: its
    value in the second run as text, or ABSENT.
    """

    name: str
    left: str
    right: str

    @property
    def differs(self) -> bool:
        """Returns whether the texts of the two values differ."""
        return self.left != self.right

    @property
    def is_half_known(self) -> bool:
        """Returns whether exactly one of the two runs has a value."""
        return (self.left == ABSENT) != (self.right == ABSENT)


@dataclass(frozen=True)
class Pair:
    """Two matching arms, one of each run, side by side. If one run has no matching arm, the pair has only one arm.

    Subjects match by their order. Other arms match by role and name.

    * `name`: the names of both arms, or one name if they are equal.
    * `verdicts`: the verdict of the left arm and the verdict of the right arm. A missing arm has None.
    * `figures`: a row for each figure, e.g. a count or the throughput.
    * `anomalies`: a row for each kind of anomaly. Each of the row's two values is a number of cases with a ruling, e.g.
      `3 (forbidden)`. If an arm has two findings of the kind, its value has both, e.g. `6 (permitted), 1
      (forbidden)`.
    """

    name: str
    role: str
    verdicts: tuple[ArmVerdict | None, ArmVerdict | None]
    figures: list[Row]
    anomalies: list[Row]

    @property
    def is_whole(self) -> bool:
        """Returns whether the pair has a verdict from both runs."""
        return None not in self.verdicts


@dataclass(frozen=True)
class Side:
    """One of the two runs that are compared. `material`: the contents of the files in the run directory."""

    verdict: RunVerdict
    scenario: Scenario
    material: Material


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side. A comparison is meant to show what changes with another version of Kafka.

    * `obstacles`: the properties, except for versions, in which the two scenarios differ. An obstacle may cause a
      difference between the figures.
    * `versions`: a row for each piece of software, e.g. Kafka, with its version in each run, and a row for the format
      of the run directories. Rows with equal versions are included.
    * `missing`: the parts of the two runs that could not be read, each with the reason.
    """

    left: Side
    right: Side
    obstacles: list[Row]
    versions: list[Row]
    pairs: list[Pair]
    missing: list[str]


def compare(left: Path, right: Path) -> Comparison:
    """Returns the comparison of two finished runs. `left`, `right`: their run directories.

    Raises IncompleteRun if a run has no scenario, counts or verdict, or if one of these files was altered.
    """
    sides = _side(left), _side(right)
    first, second = (side.scenario for side in sides)
    return Comparison(
        *sides,
        obstacles=[row for row in _rows(_properties(first, second), _properties(second, first)) if row.differs],
        versions=_rows(*(_versions(side.scenario) for side in sides)),
        pairs=[_pair(role, arms, sides) for role, arms in _arm_pairs(first, second)],
        missing=[f"{side.verdict.run_id}: {part.name}: {part.why}" for side in sides for part in side.material.missing],
    )


def _side(path: Path) -> Side:
    run = RunDirectory(path)
    run.require("plan", "reconcile", "conclude")
    verdict = run.verdict()
    return Side(verdict, run.read_scenario(), read(path, verdict))


def _properties(scenario: Scenario, other: Scenario) -> dict[str, object]:
    """Returns the properties of a scenario, by their names on the page.

    Versions are left out, because `_versions` returns them. `other`: the scenario of the other run. If `other` lacks an
    arm of this scenario, the result has one property for this arm, and leaves out the arm's settings.
    """
    properties: dict[str, object] = {"seed": scenario.seed, "min_exposed": scenario.min_exposed}
    properties |= _prefixed("load", msgspec.to_builtins(scenario.load)) | _prefixed(
        "fault", msgspec.to_builtins(scenario.fault)
    )
    properties |= _prefixed("cluster", {**msgspec.to_builtins(scenario.cluster), "kafka_version": ""})
    lacking = [arm.name for key, arm in _keys(scenario).items() if key not in _keys(other)]
    for index, arm in enumerate(scenario.loaded):
        name = arm.role if arm.role == "subject" else _plain(arm, scenario)
        prefix = f"{name} {index + 1}" if arm.role == "subject" and len(scenario.subjects) > 1 else name
        if arm.name in lacking:
            properties[f"{prefix}: arm"] = arm.name
            continue
        properties |= _prefixed(prefix, {"claim": arm.claim, "records": arm.records, "producers": arm.producers})
        own = {name: value for name, value in producer_properties(arm).items() if name != CLIENT}  # see _versions
        properties |= _prefixed(prefix, own) | _prefixed(f"{prefix} topic", arm.profile.topic)
        properties |= _prefixed(f"{prefix} application", application_properties(arm.application))
    return properties


def _prefixed(prefix: str, values: Mapping[str, object]) -> dict[str, object]:
    return {f"{prefix}: {name}": value for name, value in values.items()}


def _versions(scenario: Scenario) -> dict[str, object]:
    """Returns the versions of Kafka and other software that a run used, its clients, and the commit of this project."""
    clients = ", ".join(dict.fromkeys(arm.versioned_client.words for arm in scenario.loaded))
    known = {} if scenario.audit else {"clients": clients}
    return {"Kafka under test": scenario.cluster.kafka_version, **known, **scenario.versions, "commit": scenario.commit}


def _rows(left: Mapping[str, object], right: Mapping[str, object]) -> list[Row]:
    names = dict.fromkeys([*left, *right])
    return [Row(name, _text(left.get(name)), _text(right.get(name))) for name in names]


def _text(value: object) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, list | tuple):
        return "; ".join(_text(item) for item in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items()) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _arm_pairs(first: Scenario, second: Scenario) -> list[tuple[str, tuple[Arm | None, Arm | None]]]:
    """Returns the pairs of matching arms. Each item is (role of the arms, (arm of the first scenario, arm of the second
    scenario)).

    Subjects match by their order. Other arms match by role and name. A missing arm is None.
    """
    keys = [_keys(scenario) for scenario in (first, second)]
    return [(key[0], (keys[0].get(key), keys[1].get(key))) for key in dict.fromkeys([*keys[0], *keys[1]])]


def _keys(scenario: Scenario) -> dict[tuple[str, str], Arm]:
    """Returns the arms of a scenario by key. Two arms of two runs match if their keys are equal.

    The key of a subject is (role, position among the subjects). The key of any other arm is (role, name), without the
    client in it: a control of a run with Java matches that of a run with librdkafka.
    """
    subjects = [arm.name for arm in scenario.subjects]
    return {
        (arm.role, str(subjects.index(arm.name)) if arm.role == "subject" else _plain(arm, scenario)): arm
        for arm in scenario.arms
    }


def _plain(arm: Arm, scenario: Scenario) -> str:
    """Returns the name of the arm without its client, unless another arm of the run has this name."""
    is_named = arm.versioned_client != VersionedClient()
    plain = (arm.name.rpartition(f"-{arm.client}")[0] if is_named else "") or arm.name
    return arm.name if plain in set(scenario.arm_names) - {arm.name} else plain


def _pair(role: str, arms: tuple[Arm | None, Arm | None], sides: tuple[Side, Side]) -> Pair:
    verdicts = tuple(_verdict(side, arm) for side, arm in zip(sides, arms, strict=True))
    of_sides = [
        figures(side.material, verdict) if verdict else {} for side, verdict in zip(sides, verdicts, strict=True)
    ]
    anomalies = [
        {
            anomaly: ", ".join(_case(finding) for finding in verdict.findings if finding.anomaly == anomaly)
            for anomaly in dict.fromkeys(finding.anomaly for finding in verdict.findings)
        }
        if verdict
        else {}
        for verdict in verdicts
    ]
    name = " / ".join(dict.fromkeys(arm.name for arm in arms if arm is not None))
    return Pair(name, role, verdicts, _rows(*of_sides), _rows(*anomalies))  # type: ignore[arg-type]


def _verdict(side: Side, arm: Arm | None) -> ArmVerdict | None:
    return next((verdict for verdict in side.verdict.arms if arm is not None and verdict.arm == arm.name), None)


def _case(finding: Finding) -> str:
    return f"{number(finding.cases)} ({finding.ruling.lower()})"
