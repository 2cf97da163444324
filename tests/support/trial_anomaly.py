"""A plugin of pytest (`-p support.trial_anomaly`): adds the anomaly TRIAL, since a later version of the format.

All that the library knows of anomalies follows from the tables of `model.anomalies` when a module is imported. So the
plugin must be loaded before any other module of the library, in a process of its own.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from delivery_verifier.model import anomalies

TRIAL = "TRIAL"
SINCE = 99
"""The version of the format that begins with TRIAL. The version before is far above all that changed anything else."""
PLANTED = 3
"""The number of cases of TRIAL in a canary that has them."""


def _add_the_trial() -> None:
    known = dict(anomalies.KINDS)
    trial = replace(
        known[anomalies.Anomaly.MISPLACED],
        expectation="ExpectNoTrialRecords",
        telling=len(known) + 1,
        permitted_with="nothing",
        since=SINCE,
    )
    later = StrEnum("Anomaly", [(name, name) for name in (*known, TRIAL)])  # type: ignore[misc]
    kinds = {later[name]: kind for name, kind in (*known.items(), (TRIAL, trial))}
    anomalies.KINDS.clear()  # altered, not replaced: `searched_for` holds it
    anomalies.KINDS.update(kinds)
    anomalies.Anomaly = later  # type: ignore[misc, assignment]
    anomalies.TRANSACTIONAL = tuple(anomaly for anomaly, kind in kinds.items() if kind.transactional)
    anomalies.EFFECTS = tuple(anomaly for anomaly, kind in kinds.items() if kind.of_effects)
    anomalies.SECONDARY = tuple(anomaly for anomaly, kind in kinds.items() if kind.can_be_hidden)


def _plant_the_trial() -> None:
    from delivery_verifier.judgement.canary import layout, planters

    def plant(planter: layout.Planter, sequence: int) -> None:
        """Plants a record of which nothing but this line says that it is a case."""
        planter.acked(sequence)
        planter.expect(trial=1)

    assert planters.PER_KIND == PLANTED
    planters.PLANTERS[anomalies.Anomaly[TRIAL]] = plant


_add_the_trial()
_plant_the_trial()
