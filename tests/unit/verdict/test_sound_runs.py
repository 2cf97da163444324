"""Strong profiles on a sound cluster are HELD, quiet or under any fault, and not HELD once a single thing is wrong."""

from __future__ import annotations

import dataclasses
from collections import Counter

import msgspec
import pytest
from support import applications
from support import stored_data as stored
from support.defects import DEFECTS, Defect
from support.evidence import arm, judged, validation_of
from support.sound_runs import EFFECTIVE, STRONG, SoundRun, sound_run

from delivery_verifier.advice.doubts import ADVICE
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.verdict.audits import DOUBTS as IN_TEST_AUDITS
from delivery_verifier.verdict.evidence import Evidence
from delivery_verifier.verdict.judge import load_and_judge

QUIET = [(seed, "") for seed in range(30)]
FAULTED = [
    *((seed, EFFECTIVE[seed % len(EFFECTIVE)]) for seed in range(2 * len(EFFECTIVE))),
    (31, "elect_unclean"),
    (38, "elect_unclean"),
]
NAMES = {f"{seed:02}-{action or 'quiet'}": (seed, action) for seed, action in [*QUIET, *FAULTED]}


def _sinners() -> dict[str, tuple[str, Defect]]:
    """Maps a test's name to a sound run and the defect that is committed on it: of those that fit, the rarest so
    far."""
    times, sinners = Counter[str](), dict[str, tuple[str, Defect]]()
    for name, drawn in NAMES.items():
        run = sound_run(*drawn)
        defect = min((defect for defect in DEFECTS if defect.fits(run)), key=lambda defect: times[defect.name])
        times[defect.name] += 1
        sinners[f"{name}-{defect.name.replace(' ', '_')}"] = name, defect
    return sinners


SINNERS = _sinners()


@pytest.mark.parametrize("name", NAMES)
def test_healthy_evidence_of_a_strong_profile_is_held(name: str) -> None:
    verdict = judged(sound_run(*NAMES[name]).evidence())
    assert {part.arm: (part.verdict, part.doubts) for part in verdict.arms} == {
        part.arm: ("HELD", []) for part in verdict.arms
    }
    assert (verdict.verdict, verdict.green) == ("HELD", True)


@pytest.mark.parametrize("name", SINNERS)
def test_the_same_evidence_with_one_defect_is_not_held(name: str) -> None:
    healthy, defect = SINNERS[name]
    run = sound_run(*NAMES[healthy])
    defect.commit(run)
    evidence = run.evidence()
    verdict = judged(evidence, defect.judge_otherwise(validation_of(evidence)))
    subject = arm(verdict, run.subject.name)
    assert (verdict.verdict, subject.verdict, verdict.green) == (
        *["VIOLATED" if defect.convicts else "INCONCLUSIVE"] * 2,
        False,
    )
    if defect.convicts:
        convicting = {it.anomaly for it in subject.findings if it.tolerance == 0 and it.count + it.also}
        assert convicting == {defect.follows}
        assert "checker" not in {doubt.kind for doubt in subject.doubts}
    else:
        assert defect.follows in {doubt.name for doubt in subject.doubts}


@pytest.mark.parametrize("name", stored.NAMES)
def test_the_strong_arms_of_stored_runs_are_still_held_and_not_with_a_defect(name: str) -> None:
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


def test_every_defect_is_committed() -> None:
    assert {defect.name for _, defect in SINNERS.values()} == {defect.name for defect in DEFECTS}


def test_there_is_a_defect_for_every_doubt_that_a_run_can_have() -> None:
    follows = {defect.follows.split(":")[0] for defect in DEFECTS} | {
        doubt for doubt, _ in applications.DEFECTS.values()
    }
    in_test_checker_doubts = {"anomaly_unproven"}
    of_user_applications = {"effects_torn", "group_never_committed"}
    in_test_group_log = {"group_log_disagrees", "group_log_lacks_commit", "group_log_foreign_writer"}
    in_test_outputs = {"output_cut_off", "output_held_back", "output_unproven"}
    in_test_external = {"brokers_unwatched", "commits_unwatched", "nothing_broken"}  # and in test_observed
    others = in_test_checker_doubts | of_user_applications | in_test_group_log | in_test_outputs | IN_TEST_AUDITS
    others |= in_test_external | {"command_unproven"}  # in test_ordered
    assert set(ADVICE) - follows == others


def test_the_sound_runs_go_through_everything_that_a_sound_cluster_shows() -> None:
    quiet, faulted = ([sound_run(*drawn) for drawn in runs] for runs in (QUIET, FAULTED))
    assert {run.subject.profile.name for run in quiet} == {run.subject.profile.name for run in faulted} == set(STRONG)
    assert {injection.action for run in faulted for injection in run.injections} == set(EFFECTIVE)
    pairs = {(run.subject.profile.name, run.injections[-1].action) for run in faulted}
    assert len(pairs) >= 2 * len(EFFECTIVE), "each action meets two profiles"
    own = {name for name, act in ACTS.items() if act.takes_effect and not act.by_others}
    assert set(EFFECTIVE) == {name for name in own if ACTS[name].whom != "application"}
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


def _leaderless(run: SoundRun) -> bool:
    return any(seen.kind == "partition" and seen.leader < 0 for seen in run.observations)


def _late_elections(run: SoundRun) -> bool:
    """Whether the observer saw something change only after everything had recovered."""
    return any(
        seen.at_us > (injection.recovered_at_us or 0) and seen.kind == "partition"
        for injection in run.injections[-1:]
        for seen in run.observations
    )


def _flapping(run: SoundRun) -> bool:
    sizes = [len(seen.isr) for seen in run.observations if (seen.topic, seen.partition) == (run.subject.topic_name, 0)]
    return any(
        before == 3 and now < 3 and later == 3 for before, now, later in zip(sizes, sizes[1:], sizes[2:], strict=False)
    )


def _counted(run: SoundRun, name: str, arm: str) -> int:
    return sum(row[name] for row in run.rows["counts/producers.parquet"] if row["arm"] == arm)


def _unanswered_and_found(run: SoundRun) -> bool:
    return _counted(run, "resolved_present", run.subject.name) > 0


def _unanswered_and_absent(run: SoundRun) -> bool:
    return _counted(run, "resolved_absent", run.subject.name) > 0


def _lost_by_acks_0(run: SoundRun) -> bool:
    return _counted(run, "lost", "control-acks_0") > 0
