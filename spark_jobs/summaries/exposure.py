"""Exposure: for each injection and each arm, the number of the arm's attempts that the injection could have hurt.

If no attempt was exposed to any injection, a run without anomalies proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from delivery_verifier.model.history import LEAD_US, Injection
from delivery_verifier.model.scenario import Arm, Scenario
from spark_jobs.schemas import EXPOSURE, arrow
from spark_jobs.summaries.summary import recovered_us


def exposure(slots: pa.Table, injections: Sequence[Injection], scenario: Scenario) -> pa.Table:
    """Returns EXPOSURE from `Summary.slots`: one row per injection and arm that carries load.

    The column `reported` counts reported attempts for which all of these conditions hold:

    * The attempt went to a partition that the injection touched (`Injection.hit`).
    * The attempt was sent before the recovery, and settled no earlier than one second (LEAD_US) before the effect or,
      if somebody else did it, before it was first seen (`Injection.exposed_at_us`).
    * The attempt is in no transaction, or in a committed transaction, because only a committed transaction can become
      visible in part.

    The column `outstanding` counts, in all partitions, the attempts that were sent before the effect, and settled after
    the effect or never.
    """
    keys = ["arm", "partition", "sent_since", "settled_since", "exposable"]
    groups = slots.group_by(keys).aggregate([("attempts", "sum")]).to_pylist()
    rows = [_row(groups, injection, arm) for arm in scenario.loaded for injection in injections]
    return pa.Table.from_pylist(rows, schema=arrow(EXPOSURE))


def _row(groups: list[dict[str, Any]], injection: Injection, arm: Arm) -> dict[str, Any]:
    hit = injection.hit.get(arm.topic_name, [])
    own = [group for group in groups if group["arm"] == arm.name]
    return {
        "arm": arm.name,
        "injection": injection.id,
        "reported": sum(
            group["attempts_sum"]
            for group in own
            if group["exposable"] and group["partition"] in hit and _is_inside(group, injection)
        ),
        "outstanding": sum(group["attempts_sum"] for group in own if _is_outstanding(group, injection)),
    }


def _is_inside(group: dict[str, Any], injection: Injection) -> bool:
    settled_us = group["settled_since"]
    settled_late = settled_us is not None and settled_us >= injection.exposed_at_us - LEAD_US
    return bool(settled_late and group["sent_since"] <= recovered_us(injection))


def _is_outstanding(group: dict[str, Any], injection: Injection) -> bool:
    settled_us = group["settled_since"]
    unsettled = settled_us is None or settled_us > injection.exposed_at_us
    return bool(unsettled and group["sent_since"] < injection.exposed_at_us)
