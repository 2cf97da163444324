"""What a verdict says of six programs that commit in six ways, with and without a kill, under two claims: the verdict,
the counts, the exit code, who broke the promise, and what to look for. `bench/campaigns/user_programs.py` makes the
same 24 runs on real brokers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.evidence import SUBJECT, arm, judged
from support.played_programs import PROGRAMS, evidence, play

from delivery_verifier.advice.changes import who_broke_it
from delivery_verifier.model.scenario import Claim, VerdictName
from delivery_verifier.reporting.causes import causes_of

NOTHING = ("HELD", 0, 0, "", "")
"""The verdict, whether records are skipped, whether records are applied again, what the program did, and what to look
for first."""
AHEAD = "committed offsets of records that it had not applied, and was killed before it applied them"
GAP = "committed past records that it had not applied, and had applied others behind them"
LEFT_OUT = "left records out while it ran on, and committed past them"
APART = "had applied records, and not committed their offsets, when it was killed"
SOME = "commits only some of the partitions of which it has applied records"
LOST_AHEAD = ("VIOLATED", 1, 0, AHEAD, "a commit before the write is durable")
LOST_BY_A_TIMER = (
    "VIOLATED",
    1,
    0,
    AHEAD,
    "commits on a timer (enable.auto.commit, a scheduler): the group committed about every 1.0 s",
)
LOST_IN_A_GAP = ("VIOLATED", 1, 0, GAP, "a commit of the batch's last position while some of its records are still in")
SWALLOWED = ("VIOLATED", 1, 0, LEFT_OUT, "an exception that is caught and logged, after which the commit goes on")
REPEATED = (0, 1, APART, "effect and offset that are stored apart")
REPEATED_BY_PARTITION = (0, 1, SOME, "a commit of one record or one partition, e.g. `commit(message)`")
TABLE = {
    "honest": (NOTHING, NOTHING, ("HELD", *REPEATED), ("VIOLATED", *REPEATED)),
    "ahead": (NOTHING, NOTHING, LOST_AHEAD, LOST_AHEAD),
    "timer": (NOTHING, NOTHING, LOST_BY_A_TIMER, LOST_BY_A_TIMER),
    "gap": (NOTHING, NOTHING, LOST_IN_A_GAP, LOST_IN_A_GAP),
    "swallow": (SWALLOWED, SWALLOWED, SWALLOWED, SWALLOWED),
    "one_partition": (NOTHING, NOTHING, ("HELD", *REPEATED_BY_PARTITION), ("VIOLATED", *REPEATED_BY_PARTITION)),
}
CLAIMS: tuple[Claim, ...] = ("contract", "exactly_once")
CELLS = [
    (program, is_killed, claim, TABLE[program][2 * is_killed + number])
    for program in PROGRAMS
    for is_killed in (False, True)
    for number, claim in enumerate(CLAIMS)
]


@pytest.mark.parametrize(("program", "is_killed", "claim", "expected"), CELLS)
def test_a_program_has_the_verdict_that_it_deserves_and_the_evidence_says_who_did_it(
    program: str, is_killed: bool, claim: Claim, expected: tuple[VerdictName, int, int, str, str]
) -> None:
    verdict = judged(evidence(program, is_killed=is_killed, claim=claim))
    name, skips, repeats, what, look_for = expected
    subject = arm(verdict)
    assert (subject.verdict, verdict.exit_code) == (name, int(name == "VIOLATED")), subject.doubts
    assert subject.doubts == [], "the kill is proven, and planned"
    counts = [subject.tally[column] for column in ("skipped", "reapplied")]
    assert [count > 0 for count in counts] == [skips, repeats or (counts[1] > 0 and program == "swallow")]
    if not what:
        assert subject.causes == []
        return
    cause = next(each for each in subject.causes if each.anomaly == ("SKIPPED" if skips else "REAPPLIED"))
    assert what in cause.what and cause.look_for[0].startswith(look_for)
    assert sum(each.count for each in subject.causes) == sum(counts), "each case has a cause"
    if skips:
        lead, text = who_broke_it(subject, [each for each in subject.findings if each.cases])
        assert "your program, or the client library" in lead and text == "Kafka did what it was told."


def test_the_evidence_names_the_record_its_commit_the_member_and_the_kill() -> None:
    verdict = judged(evidence("ahead", is_killed=True, claim="contract"))
    (told,) = causes_of(arm(verdict))
    count, played = arm(verdict).tally["skipped"], play("ahead", is_killed=True)
    assert told.heading.startswith(f"{count} skipped: The program, or its client library, committed offsets")
    assert (
        "Record 200 of producer 0 stands in partition 0 at offset 200, and no member ever applied it." in told.evidence
    )
    assert "Offset 210 of this partition was committed at 00:01:40.001 UTC by member sink-7f:" in told.evidence
    assert "Its members were killed at 00:01:4" in told.evidence and played.in_progress == count


@pytest.mark.parametrize("claim", CLAIMS)
def test_without_commits_that_show_it_nobody_says_that_the_program_did_it(claim: Claim) -> None:
    made = evidence("swallow", is_killed=False, claim=claim)
    assert made.group_log is not None
    bare = made.group_log._replace(commits=[], positions=[row | {"position": 0} for row in made.group_log.positions])
    subject = arm(judged(replace(made, group_log=bare)), SUBJECT)
    assert subject.verdict == "VIOLATED" and subject.causes == []
    broken = [finding for finding in subject.findings if finding.cases]
    _, text = who_broke_it(subject, broken)
    assert text.startswith("Kafka, its client or this verifier broke a promise") or claim != "contract"
