"""What was given up: attempts that were neither reported nor written, the settings that gave them up, and what to
change.

Nothing was promised about such an attempt, so it is no case of an anomaly and convicts nobody. But this is what most
people mean who say that Kafka lost their records. All functions are pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from delivery_verifier.contract.giving_up import GivingUp, giving_up
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.fault_actions import TERMINATE
from delivery_verifier.model.figures import share
from delivery_verifier.model.history import Injection, Observation, left_key
from delivery_verifier.model.verdict import GivenUp
from delivery_verifier.verdict.evidence import ArmEvidence

WAYS_SHOWN = 3
"""The greatest number of ways of giving up that a sentence names."""


def given_up_of(arm: ArmEvidence) -> GivenUp | None:
    """Returns what an arm gave up. Returns None if that is nothing."""
    counts = arm.run.given_up.get(arm.name, [])
    errors, ways = Counter[str](), Counter[GivingUp]()
    dropped = _dropped(arm)
    settings = Settings.of_arm(arm.run.scenario, arm.spec)
    for count in counts:
        errors[count.error] += count.attempts
        ways[giving_up(count.error, settings, arm.spec.profile.producer, dropped)] += count.attempts
    if not errors:
        return None
    away_s = longest_away_s(arm.run.observations, arm.spec.topic_name, {count.partition for count in counts})
    return GivenUp(
        attempts=errors.total(),
        attempted=arm.totals.get("attempted", 0),
        errors=dict(errors.most_common()),
        away_s=round(away_s, 1),
        sentence=_sentence(arm, ways, away_s),
        changes=_changes(ways, away_s),
    )


def _dropped(arm: ArmEvidence) -> int:
    """Returns how many records the arm's producers had in progress when they ended on SIGTERM without flush().

    Returns 0 unless these are all attempts of the arm that never got a report. Otherwise some of these attempts have
    another cause, and nothing shows which.
    """
    if arm.spec.on_sigterm != "exit":
        return 0
    ends = [injection for injection in arm.run.effective if injection.action == TERMINATE]
    unreported = sum(_unreported(injection, arm.name) for injection in ends)
    never_reported = arm.totals.get("indeterminate", 0) - arm.run.indeterminate.get(arm.name, 0)
    return unreported if unreported == never_reported else 0


def _unreported(injection: Injection, arm: str) -> int:
    proof = injection.proof.get("process")
    count = proof.get(left_key(arm)) if isinstance(proof, dict) else None
    return count if isinstance(count, int) else 0


def longest_away_s(observations: Iterable[Observation], topic: str, partitions: Collection[int]) -> float:
    """Returns the longest time (s) for which one of the `partitions` of `topic` had no running leader.

    The time begins when a partition loses its leader, or when the process of its leader freezes or ends. It ends when
    the partition has a leader whose process runs, or at the last observation. Returns 0 if there was no such time.

    A process that has ended leads nothing when it runs again, until a leader of the partition is observed anew: while
    all brokers are away, nobody says that their partitions have no leader. If none is observed any more, the time ends
    when the process runs again.
    """
    leaders, states, ended = dict[int, int](), dict[int, str](), set[int]()
    since_us, again_us, longest_us, now_us = dict[int, int](), dict[int, int](), 0, 0
    for observation in observations:
        now_us = observation.at_us
        if observation.kind == "process":
            states[observation.broker] = observation.state
            if observation.state == "exited":
                ended |= {partition for partition, leader in leaders.items() if leader == observation.broker}
        elif observation.kind == "partition" and observation.topic == topic and observation.partition in partitions:
            leaders[observation.partition] = observation.leader
            ended.discard(observation.partition)
        else:
            continue
        for partition, leader in leaders.items():
            if leader < 0 or states.get(leader, "running") != "running":
                since_us.setdefault(partition, now_us)
                again_us.pop(partition, None)
            elif partition in ended:
                again_us.setdefault(partition, now_us)
            elif partition in since_us:
                longest_us = max(longest_us, now_us - since_us.pop(partition))
    return max([longest_us, *(again_us.get(each, now_us) - begun_us for each, begun_us in since_us.items())]) / 1e6


def _sentence(arm: ArmEvidence, ways: Mapping[GivingUp, int], away_s: float) -> str:
    number, attempted = sum(ways.values()), arm.totals.get("attempted", 0)
    is_whole = not any(part.unreadable for part in arm.run.offsets.partitions if part.arm == arm.name)
    where = "the log" if is_whole else "the readable part of the log"
    were, are = ("was", "is") if number == 1 else ("were", "are")
    fact = (
        f"{number:,} of {attempted:,} records ({share(number, attempted)}) {were} not acknowledged and {are} not in "
        f"{where}: {_listed(ways)}."
    )
    return f"{fact} One of their partitions had no running leader for {away_s:.1f} s." if away_s >= 0.05 else fact


def _listed(ways: Mapping[GivingUp, int]) -> str:
    """Returns the ways of giving up with their numbers, the most frequent way first."""
    if len(ways) == 1:
        return next(iter(ways)).how
    ordered = Counter(ways).most_common()
    shown, others = ordered[:WAYS_SHOWN], sum(count for _, count in ordered[WAYS_SHOWN:])
    return ", ".join(
        [*(f"{count:,} {way.how}" for way, count in shown), *([f"{others:,} otherwise"] if others else [])]
    )


def _changes(ways: Mapping[GivingUp, int], away_s: float) -> list[str]:
    longer = f", which was {away_s:.1f} s here" if away_s >= 0.05 else ""
    texts = [text for way, _ in Counter(ways).most_common()[:WAYS_SHOWN] for text in (way.change, way.price) if text]
    return list(dict.fromkeys(text.replace("{longer}", longer) for text in texts))
