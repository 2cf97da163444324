"""Permissions: finds the disturbances that make the contract permit an anomaly."""

from __future__ import annotations

from collections.abc import Iterable

from delivery_verifier.contract.rules import RULES, ContractRule
from delivery_verifier.contract.rulings import alterations
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import Disturbance


def permitting(settings: Settings, disturbances: Iterable[Disturbance]) -> dict[Anomaly, list[Disturbance] | None]:
    """Maps each permitted anomaly to the disturbances, planned or unplanned, that make a rule permit the anomaly.

    The value is None if a rule permits the anomaly without any disturbance. `disturbances` must be the disturbances of
    the arm's topic. If a setting of the topic was altered, the rules are also applied to the weaker settings after the
    alteration. Then only the disturbances from the time of the alteration on count (see `rulings.alterations`).
    """
    observed = list(disturbances)
    result: dict[Anomaly, list[Disturbance] | None] = {}
    for known, later in [(settings, observed), *alterations(settings, observed)]:
        for rule in RULES:
            explained_by = _explains(rule, known, later)
            if explained_by is None:
                continue
            previous = result.get(rule.anomaly, [])
            if previous is None or not rule.kinds:
                result[rule.anomaly] = None
            else:
                result[rule.anomaly] = previous + [
                    explanation for explanation in explained_by if explanation not in previous
                ]
    return result


def _explains(rule: ContractRule, settings: Settings, observed: list[Disturbance]) -> list[Disturbance] | None:
    """Returns the disturbances that make `rule` permit its anomaly; None if the rule does not permit the anomaly."""
    if not rule.holds(settings):
        return None
    kinds = {disturbance.kind for disturbance in observed}
    explained_by = [
        disturbance
        for disturbance in observed
        if disturbance.kind in rule.kinds and rule.far_enough(settings, disturbance)
    ]
    return explained_by if kinds.issuperset(rule.also_required) and (explained_by or not rule.kinds) else None
