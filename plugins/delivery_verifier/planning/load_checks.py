"""Checks whether the load of a user's own run fits the arms and the fault of this run. The message of each check names
the field that is wrong."""

from __future__ import annotations

from delivery_verifier.model.inputs import bad_input
from delivery_verifier.model.scenario import Load, Scenario


def check_transactions(scenario: Scenario) -> None:
    """Raises BadInput if a field describes transactions, but no arm writes transactions."""
    for name in ("transaction_records", "abort_every"):
        value = getattr(scenario.load, name)
        if value != getattr(Load(), name) and not scenario.transactional:
            remedy = "leave it out, or choose --profile transactional"
            raise bad_input(name, value, "nothing, for no arm has a transactional.id", remedy)


def check_exposure(scenario: Scenario) -> None:
    """Raises BadInput if the load has fewer records than `min_exposed` times the number of cycles. Each cycle must
    expose at least `min_exposed` records, or no arm can be HELD.

    There is no check in two cases:

    * The fault plan has no steps.
    * The user gave no rate, and the pacing is not `spread`. With `flat_out`, for example, the load sends as many
      records as possible while the fault lasts.
    """
    load, cycles, records = scenario.load, scenario.fault.cycles, scenario.subjects[0].records
    needed = scenario.min_exposed * cycles
    planned = max(records, int((load.rate or 0) * load.duration_s))
    if scenario.fault.steps and planned < needed and (load.rate or load.pacing == "spread"):
        reason = (
            f"at least {needed}, for each of {cycles} cycles of the fault must expose {scenario.min_exposed} records"
        )
        raise bad_input("records", records, reason, "or lower cycles or min_exposed")
