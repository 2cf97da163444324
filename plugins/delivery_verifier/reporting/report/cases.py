"""The cases of anomalies: for each arm and kind of anomaly, the first cases with evidence, and the number of cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import Observation, injection_during
from delivery_verifier.model.verdict import ArmVerdict
from delivery_verifier.reporting.explained_by import explanation_of_case
from delivery_verifier.reporting.leadership import Clock, Leadership, injection_name, topic_of
from delivery_verifier.reporting.material import Material
from delivery_verifier.reporting.report.truncation import Truncations
from delivery_verifier.run_directory import tables
from delivery_verifier.run_directory.cases import CASES_LISTED, first_rows, record_name
from delivery_verifier.run_directory.record_history import claims_of

OFFSETS_SHOWN = 4
"""The greatest number of offsets that are shown for one case."""


@dataclass(frozen=True)
class Case:
    """One case with its evidence as text. `row`: the row of the case in anomalies/, with times in µs since the epoch.

    * `sent`: the time when the record was sent. `settled`: the time when the outcome of the record was known.
    * `leader`: the leader of the partition at the time `settled`. If the outcome was never known, the leader at the
      time `sent`. `isr`: the ISR of the partition at the same time.
    * `injection`: the name of the first injection that could have hurt the record (see `injection_during`).
    * `offsets`: the offsets of the copies of the record.
    * `explanation`: the disturbance that explains the case (see `explanation_of_case`).
    * `claim`: in an audit, the claim of the record, with its file and line; empty if the record has none.
    * `truncation`: how a lost record was removed when a log was truncated (see `truncation.Truncations`); empty if that
      is not known.

    Every other text is an en dash if its value does not exist or is not known.
    """

    row: dict[str, Any]
    leader: str
    isr: str
    injection: str
    sent: str
    settled: str
    offsets: str
    explanation: str
    claim: str
    truncation: str


@dataclass(frozen=True)
class CaseGroup:
    """The first cases of one arm and one kind of anomaly, at most CASES_LISTED cases.

    `role`: the role of the arm, or an empty text if it is not known. `total`: the number of cases in the counts, or
    None if it is not known. `cut`: whether the folder anomalies/ has fewer cases than the tables of counts have,
    because the folder holds only a limited number of cases.
    """

    arm: str
    role: str
    kind: str
    total: int | None
    cut: bool
    cases: list[Case]


def groups(material: Material, clock: Clock) -> list[CaseGroup]:
    """Returns the case groups of a run. There is one group for each arm and kind of anomaly that has cases.

    Returns an empty list if anomalies/ could not be read. Subjects come first, then controls, then arms of unknown
    role, then the canary. The kinds of one arm stand in the order of Anomaly.
    """
    table = material.table(tables.ANOMALIES)
    if table is None:
        return []
    counted = {(row["arm"], row["kind"]): row for row in _rows(material.table(tables.CASES))}
    pairs = {(row["arm"], row["kind"]) for row in table.group_by(["arm", "kind"]).aggregate([]).to_pylist()}
    pairs |= {pair for pair, row in counted.items() if row["cases"]}
    leadership, truncations = Leadership(material.observations), Truncations(material)
    case_groups = []
    for arm, kind in sorted(pairs, key=lambda pair: _rank(material, *pair)):
        count = counted.get((arm, kind))
        rows = first_rows(table, arm, kind, CASES_LISTED)
        claims = material.take("claims", lambda: claims_of(material.path, arm, rows)) or {}  # noqa: B023 (called here)
        cases = [_case(material, clock, leadership, truncations, row, claims) for row in rows]
        total, cut = (count["cases"], count["cut"]) if count else (None, False)
        case_groups.append(CaseGroup(arm, role_of(material, arm), kind, total, cut, cases))
    return case_groups


def role_of(material: Material, arm: str) -> str:
    """Returns the role of an arm. The role comes from the verdict or, if the verdict lacks the arm, from the scenario.

    Returns an empty text if neither contains the arm.
    """
    judged, scenario = verdict_of(material, arm), material.scenario
    if judged:
        return judged.role
    return str(scenario.arm(arm).role) if scenario is not None and arm in scenario.arm_names else ""


def verdict_of(material: Material, arm: str) -> ArmVerdict | None:
    """Returns the verdict of an arm, or None if it was not judged."""
    return next((judged for judged in (material.verdict.arms if material.verdict else []) if judged.arm == arm), None)


def _rank(material: Material, arm: str, kind: str) -> tuple[int, str, int]:
    roles = ("subject", "control", "", "canary")
    kinds = [anomaly.value for anomaly in Anomaly]
    return roles.index(role_of(material, arm)), arm, kinds.index(kind) if kind in kinds else len(kinds)


def _case(
    material: Material,
    clock: Clock,
    leadership: Leadership,
    truncations: Truncations,
    row: dict[str, Any],
    claims: Mapping[str, str],
) -> Case:
    last_known_us = row["settled_at"] if row["settled_at"] is not None else row["sent_at"]
    observation = leadership.last_observation(topic_of(material, row["arm"]), row["partition"], last_known_us)
    injection = injection_during(material.injections, row["sent_at"], row["settled_at"])
    return Case(
        row=row,
        leader=_leader(observation),
        isr="–" if observation is None else ", ".join(str(broker) for broker in observation.isr) or "none",
        injection="–" if injection is None else injection_name(injection),
        sent=clock.text(row["sent_at"]),
        settled=clock.text(row["settled_at"]),
        offsets=offsets_text(row),
        explanation=explanation_of_case(verdict_of(material, row["arm"]), row, clock.text),
        claim=claims.get(record_name(row), ""),
        truncation=truncations.text(row),
    )


def _leader(observation: Observation | None) -> str:
    """Returns the leader in `observation` as text, e.g. `broker 2`, or `none` if there is no leader.

    Returns an en dash if `observation` is None.
    """
    if observation is None:
        return "–"
    return "none" if observation.leader < 0 else f"broker {observation.leader}"


def offsets_text(row: Mapping[str, Any]) -> str:
    """Returns the offsets of the copies of a record as text. The text names at most OFFSETS_SHOWN offsets, and the
    partition of each one that is not in the partition of the case. `row`: the row of the case in anomalies/.

    Returns `nowhere` if there are no copies.
    """
    if not (offsets := row["offsets"]):
        return "nowhere"
    partitions = row.get("partitions") or [row["partition"]] * len(offsets)
    places = list(zip(offsets, partitions, strict=True))[:OFFSETS_SHOWN]
    first = ", ".join(
        f"{offset:,}" + f" of partition {partition}" * (partition != row["partition"]) for offset, partition in places
    )
    return first + (f" and {len(offsets) - OFFSETS_SHOWN} more" if len(offsets) > OFFSETS_SHOWN else "")


def _rows(table: pa.Table | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [] if table is None else table.to_pylist()
    return rows
