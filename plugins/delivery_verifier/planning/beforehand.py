"""What a run cannot show, and what it will give up: known from its scenario, and said before it starts.

Whether the group of a user's own program commits is not known before the run.
"""

from __future__ import annotations

from collections.abc import Iterator

from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.planning.own_settings import topic

NEVER_COMMITS = (
    "if its group never commits (it keeps its offsets in a checkpoint, say), it is not known what a kill hits: the arm "
    "may then be VIOLATED, and never HELD. Let it also commit to its group, after it has stored its offsets"
)
ONE_REPLICA = f"{topic.ONE_REPLICA}. Raise --replication-factor to know more"

DROPS_ITS_QUEUE = (
    "records are expected to be given up: the program exits on SIGTERM without flush(), and drops what it has queued. "
    "Nothing is promised about them, so they convict nobody"
)


def lines(scenario: Scenario, arm: Arm) -> Iterator[str]:
    """Yields what a run of `scenario` cannot show about `arm`, and what the arm will give up. One sentence each."""
    steps = scenario.fault.steps
    is_own = arm.application is not None and arm.application.discipline == "own"
    if is_own and any("application_crash" in step.act.counts_as for step in steps):
        yield NEVER_COMMITS
    harms_brokers = any(step.act.does or "isolation" in step.act.counts_as for step in steps)
    if scenario.load.replication_factor == 1 and harms_brokers:
        yield ONE_REPLICA
    if arm.on_sigterm == "exit":
        yield DROPS_ITS_QUEUE
    away_s, timeout_ms = _away_s(scenario), Settings.of_arm(scenario, arm).delivery_timeout_ms
    if 0 < timeout_ms < away_s * 1000:
        yield (
            f"records are expected to be given up: no broker acknowledges anything for at least {away_s:g} s, "
            f"and delivery.timeout.ms={timeout_ms} ends before. "
            "Nothing is promised about them, so they count as no violation"
        )


def _away_s(scenario: Scenario) -> float:
    """Returns the seconds for which some partitions surely have no running leader. 0 if nobody knows.

    That is the length of a fault which leaves no other replica: all brokers are down, or the partitions have one
    replica.
    """
    away_s, is_alone = 0.0, False
    for step in scenario.fault.steps:
        if step.trigger.kind == "elapsed" and is_alone:
            away_s = max(away_s, step.trigger.value)
        if step.act.takes_effect:
            is_alone = bool(step.act.does) and (step.target == "all" or scenario.load.replication_factor == 1)
        elif step.act.heals:
            is_alone = False
    return away_s
