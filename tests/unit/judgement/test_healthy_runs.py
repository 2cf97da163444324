"""Strong profiles on a sound cluster are HELD, quiet or under any fault, and not HELD once a single thing is wrong."""

from __future__ import annotations

import dataclasses
from collections import Counter

import msgspec
import pytest
from support import applications
from support import stored_data as stored
from support.evidence import arm, judged, validation_of
from support.healthy_runs import BITING, STRONG, HealthyRun, healthy_run
from support.sins import SINS, Sin

from delivery_verifier.advice.doubts import ADVICE
from delivery_verifier.judgement.audits import DOUBTS as IN_TEST_AUDITS
from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.judgement.judge import load_and_judge
from delivery_verifier.model.fault_actions import ACTS

QUIET = [(seed, "") for seed in range(30)]
FAULTED = [
    *((seed, BITING[seed % len(BITING)]) for seed in range(2 * len(BITING))),
    (31, "elect_unclean"),
    (38, "elect_unclean"),
]
NAMES = {f"{seed:02}-{action or 'quiet'}": (seed, action) for seed, action in [*QUIET, *FAULTED]}


def _sinners() -> dict[str, tuple[str, Sin]]:
    """Maps a test's name to a healthy run and the sin that is committed on it: of those that fit, the rarest so far."""
    times, sinners = Counter[str](), dict[str, tuple[str, Sin]]()
    for name, drawn in NAMES.items():
        run = healthy_run(*drawn)
        sin = min((sin for sin in SINS if sin.fits(run)), key=lambda sin: times[sin.name])
        times[sin.name] += 1
        sinners[f"{name}-{sin.name.replace(' ', '_')}"] = name, sin
    return sinners


SINNERS = _sinners()


@pytest.mark.parametrize("name", NAMES)
def test_healthy_evidence_of_a_strong_profile_is_held(name: str) -> None:
    verdict = judged(healthy_run(*NAMES[name]).evidence())
    assert {part.arm: (part.verdict, part.doubts) for part in verdict.arms} == {
        part.arm: ("HELD", []) for part in verdict.arms
    }
    assert (verdict.verdict, verdict.green) == ("HELD", True)


@pytest.mark.parametrize("name", SINNERS)
def test_the_same_evidence_with_one_sin_is_not_held(name: str) -> None:
    healthy, sin = SINNERS[name]
    run = healthy_run(*NAMES[healthy])
    sin.commit(run)
    evidence = run.evidence()
    verdict = judged(evidence, sin.judge_otherwise(validation_of(evidence)))
    subject = arm(verdict, run.subject.name)
    assert (verdict.verdict, subject.verdict, verdict.green) == (
        *["VIOLATED" if sin.convicts else "INCONCLUSIVE"] * 2,
        False,
    )
    if sin.convicts:
        convicting = {it.anomaly for it in subject.findings if it.tolerance == 0 and it.count + it.also}
        assert convicting == {sin.follows}
        assert "checker" not in {doubt.kind for doubt in subject.doubts}
    else:
        assert sin.follows in {doubt.name for doubt in subject.doubts}


@pytest.mark.parametrize("name", stored.NAMES)
def test_the_strong_arms_of_stored_runs_are_still_held_and_not_with_a_sin(name: str) -> None:
    evidence = Evidence.load(stored.RUNS / name)
    strong = {part.name for part in evidence.loaded if part.spec.profile.name in STRONG}
    verdict = load_and_judge(stored.RUNS / name)
    assert strong and {part.arm for part in verdict.arms if part.verdict == "HELD" and not part.doubts} >= strong
    blind = dataclasses.replace(evidence, observations=evidence.observations[:1])
    never = [msgspec.structs.replace(injection, healed_at_us=None) for injection in evidence.injections]
    unhealed = dataclasses.replace(evidence, injections=never)
    for sinful, doubt in ((blind, "observer_blind"), (unhealed, "fault_not_healed")):
        judged_again = [arm(judged(sinful), part) for part in strong]
        assert all(doubt in {it.name for it in part.doubts} and part.verdict != "HELD" for part in judged_again)


def test_every_sin_is_committed() -> None:
    assert {sin.name for _, sin in SINNERS.values()} == {sin.name for sin in SINS}


def test_there_is_a_sin_for_every_doubt_that_a_run_can_have() -> None:
    follows = {sin.follows.split(":")[0] for sin in SINS} | {doubt for doubt, _ in applications.SINS.values()}
    in_test_checker_doubts = {"anomaly_unproven"}
    of_own_applications = {"effects_torn", "group_never_committed"}
    in_test_witness = {"witness_disagrees", "witness_lacks_commit", "witness_stranger"}
    in_test_outputs = {"output_cut_off", "output_held_back", "output_unproven"}
    in_test_external = {"brokers_unwatched"}
    others = in_test_checker_doubts | of_own_applications | in_test_witness | in_test_outputs | IN_TEST_AUDITS
    others |= in_test_external
    assert set(ADVICE) - follows == others


def test_the_healthy_runs_go_through_everything_that_a_sound_cluster_shows() -> None:
    quiet, faulted = ([healthy_run(*drawn) for drawn in runs] for runs in (QUIET, FAULTED))
    assert {run.subject.profile.name for run in quiet} == {run.subject.profile.name for run in faulted} == set(STRONG)
    assert {injection.action for run in faulted for injection in run.injections} == set(BITING)
    pairs = {(run.subject.profile.name, run.injections[-1].action) for run in faulted}
    assert len(pairs) >= 2 * len(BITING), "each action meets two profiles"
    assert set(BITING) == {name for name, act in ACTS.items() if act.bites and act.whom != "application"}
    assert not any(run.injections for run in quiet)
    for shown in (
        _leaderless,
        _late_elections,
        _flapping,
        _unanswered_and_found,
        _unanswered_and_absent,
        _lost_by_acks_0,
    ):
        assert any(map(shown, faulted)), shown.__name__


def _leaderless(run: HealthyRun) -> bool:
    return any(seen.kind == "partition" and seen.leader < 0 for seen in run.observations)


def _late_elections(run: HealthyRun) -> bool:
    """Whether the observer saw something change only after everything had recovered."""
    return any(
        seen.at_us > (injection.recovered_at_us or 0) and seen.kind == "partition"
        for injection in run.injections[-1:]
        for seen in run.observations
    )


def _flapping(run: HealthyRun) -> bool:
    sizes = [len(seen.isr) for seen in run.observations if (seen.topic, seen.partition) == (run.subject.topic_name, 0)]
    return any(
        before == 3 and now < 3 and later == 3 for before, now, later in zip(sizes, sizes[1:], sizes[2:], strict=False)
    )


def _counted(run: HealthyRun, name: str, arm: str) -> int:
    return sum(row[name] for row in run.rows["books/producers.parquet"] if row["arm"] == arm)


def _unanswered_and_found(run: HealthyRun) -> bool:
    return _counted(run, "resolved_present", run.subject.name) > 0


def _unanswered_and_absent(run: HealthyRun) -> bool:
    return _counted(run, "resolved_absent", run.subject.name) > 0


def _lost_by_acks_0(run: HealthyRun) -> bool:
    return _counted(run, "lost", "control-acks_0") > 0
