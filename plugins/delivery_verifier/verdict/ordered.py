"""A run in which commands of an operator broke the brokers of a cluster that somebody else runs: what nobody knows of
what they did, and so convicts nobody.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from delivery_verifier.contract.observer import in_window
from delivery_verifier.contract.outside import silences
from delivery_verifier.model.history import Injection
from delivery_verifier.model.operator_commands import COMMANDABLE
from delivery_verifier.verdict.evidence import Evidence

UNPROVEN = "command_unproven"


def doubts(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    """Yields (arm, name, detail) of a checker doubt for each arm and each order without proof, or whose broker did not
    come back, and for each broker that did not answer though nothing was ordered for it.

    A command that failed, that hit another broker, or that did nothing may have done anything else. So what was lost
    then is no proof against the settings.
    """
    external = evidence.scenario.cluster.external
    if external is None or external.commands is None:
        return
    unproven = [
        f"{injection.in_words} was ordered by a command, and {why}"
        for injection in evidence.injections
        if injection.action in COMMANDABLE and (why := _unproven(injection))
    ]
    for detail in (*unproven, *_silent_without_order(evidence)):
        yield from ((arm.name, UNPROVEN, f"{arm.name}: {detail}") for arm in evidence.loaded)


def _silent_without_order(evidence: Evidence) -> Iterator[str]:
    """Yields a text for each broker that did not answer for some time between the begin of the load and the snapshot,
    outside the time of each injection that names it."""
    began_us, taken_us = evidence.load_began_us, evidence.offsets.taken_at_us
    for broker, times in sorted(silences(evidence.observations).items()):
        own = [injection for injection in evidence.injections if broker in injection.brokers]
        without = [
            each
            for each in times
            if each.counts
            and (each.until_us is None or each.until_us >= began_us)
            and each.since_us <= taken_us
            and not any(in_window(injection, each.seen_us) for injection in own)
        ]
        if without:
            yield (
                f"broker {broker} did not answer at {without[0].seen_us} (µs since the epoch), and nothing was ordered "
                "for it then: a command may have hit another broker than the one that was meant"
            )


def _unproven(injection: Injection) -> str:
    if not injection.took_effect:
        return (
            f"what it did is not known: {injection.proof.get('failed') or 'nothing shows that it did what was asked'}"
        )
    return "" if injection.recovered_at_us else "the cluster was not seen to be whole again"


def limits(evidence: Evidence) -> Iterator[str]:
    """Yields a sentence about what the commands were, and what is known of what they did."""
    external = evidence.scenario.cluster.external
    if external is not None and external.commands is not None:
        yield (
            f"Brokers were broken by the operator's commands {external.commands.name} (SHA-256 "
            f"{external.commands.sha256[:12]}). A command only orders: that it took effect is what was seen from "
            "outside, that is, which broker answered nobody, who led, and who was in sync. A kill, a restart and a "
            "loss of power look the same there."
        )
