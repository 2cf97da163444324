"""The verdict of a run and of each arm, with findings, doubts and limits. verdict.json consists of these parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from delivery_verifier.model.advice import Advice, Example
from delivery_verifier.model.data import Data as _Part
from delivery_verifier.model.history import Disturbance
from delivery_verifier.model.scenario import Claim, Expectation, Role, VerdictName

WORST_FIRST: tuple[VerdictName, ...] = ("VIOLATED", "INCONCLUSIVE", "HELD")
"""Verdicts from worst to best. VIOLATED comes first, because a doubt about one subject does not undo a violation that
was proven in another subject."""
RECORDS_NAMED = 1_000
"""The greatest number of records that a verdict names for one disturbance, and of those that none explains, per arm and
anomaly. They are the first ones by partition, sequence and attempt. All are counted, and anomalies/ has their
evidence."""


class Doubt(_Part, frozen=True):
    """A reason to withhold a verdict. `name` names the reason, e.g. `canary_wrong`. `detail` says what was seen, and
    `remedy` what to do about it, in sentences; it is empty until the verdict was advised.

    `kind` says which verdicts the doubt forbids. `checker`: the verifier itself may be wrong, so HELD and VIOLATED are
    forbidden. `coverage`: the run did not test the arm as planned, so only HELD is forbidden.
    """

    kind: Literal["checker", "coverage"]
    name: str
    detail: str
    remedy: str = ""


class ExplainedBy(_Part, frozen=True):
    """A disturbance that explains cases of an anomaly, and the number of these cases (`count`).

    The disturbance can have hurt only records that were acknowledged between `since_us` and `until_us` (µs since the
    epoch). None: the time is not known. If several disturbances can explain a case, the case counts only for the
    disturbance that is nearest in time to the acknowledgement. `records`: the names of their records, as in
    `run_directory.cases.record_name`, at most RECORDS_NAMED.
    """

    disturbance: Disturbance
    since_us: int | None
    until_us: int | None
    count: int
    records: list[str] = []


class Finding(_Part, frozen=True):
    """One anomaly in one arm: the number of cases, and the ruling, which forbids or permits the anomaly.

    * `ruled_by`: whether the ruling comes from the contract or from the claim. `rule`: the name of the rule.
    * `sentence`: the reason for the ruling in words. `source`: where the reason is written down, e.g. a KIP.
    * `count`: the number of cases of this anomaly.
    * `also`: the number of further records that show this anomaly, but are cases of another anomaly. `also` can be
      above 0 only for anomalies in SECONDARY (see `Anomaly`). For REORDERED, `also` includes `reordered_late` (see
      `ArmVerdict`).
    * `tolerance`: the greatest sum of `count` and `also` that is permitted. None: any sum. In the canary, it is the
      number of planted cases.

    If the contract permits the anomaly because of disturbances, `explained_by` has one entry for each disturbance that
    explains cases, in order of time. `doubtful` counts the cases of which nobody knows whether a disturbance explains
    them. Cases that were not written down one by one are neither in `explained_by` nor in `doubtful`.

    `unexplained`: the names of the records that need a disturbance, and of which none is sure to explain them; at most
    RECORDS_NAMED. They are doubtful if the finding permits its cases, and convict if it forbids them. A record that is
    named nowhere needs no explanation, unless it stands behind RECORDS_NAMED others.
    """

    anomaly: str
    ruling: Literal["FORBIDDEN", "PERMITTED"]
    ruled_by: Literal["contract", "claim"]
    rule: str
    sentence: str
    source: str
    tolerance: int | None
    count: int
    also: int
    explained_by: list[ExplainedBy] = []
    doubtful: int = 0
    unexplained: list[str] = []

    @property
    def cases(self) -> int:
        """The number of records that show the anomaly."""
        return self.count + self.also

    @property
    def broken(self) -> bool:
        """Whether more records show the anomaly than its tolerance allows. Such a finding convicts its arm, unless a
        checker doubt forbids it."""
        return self.tolerance is not None and self.cases > self.tolerance

    @property
    def explained(self) -> int:
        """The number of cases that a disturbance explains."""
        return sum(explanation.count for explanation in self.explained_by)


class Exposure(_Part, frozen=True):
    """How many attempts of one arm could be hurt by one injection.

    `injection` is the id of the injection. `cycle` is the number of the injection's cycle. Do not add the numbers of
    injections of the same cycle, because they may have exposed the same attempts (see `exposed`).

    `reported` counts the reported attempts for which all of these conditions hold:

    * The attempt went to a partition that the injection touched.
    * The attempt was sent before the recovery, when every replica was in sync again.
    * The attempt settled no earlier than one second before the effect.
    * If the attempt belongs to a transaction, the transaction was committed.

    `outstanding` counts the attempts that were sent before the effect and had not settled at the effect. Every
    partition and every outcome counts.
    """

    injection: int
    reported: int
    outstanding: int
    cycle: int = 0


class GivenUp(_Part, frozen=True):
    """The attempts of one arm that were given up: neither reported (ACKED or SENT) nor in the log. They convict
    nobody, because nothing was promised about them, but whoever sent them must know.

    * `attempts`: their number. `attempted`: the number of all attempts of the arm.
    * `errors`: maps the client's name of an error to the number of attempts with it; an empty name: without an error.
    * `away_s`: the longest time (s) for which one of their partitions had no running leader; 0 if that was not seen.
    * `sentence`: their number, their share, and the settings that gave them up. It ends with a full stop.
    * `changes`: sentences on what to change, and on what that costs.
    """

    attempts: int
    attempted: int
    errors: dict[str, int]
    away_s: float
    sentence: str
    changes: list[str]

    @property
    def in_a_sentence(self) -> str:
        """The text of `sentence` behind another sentence: it begins with a full stop, and ends without one. A sentence
        of a verdict has this text between its reason and the circumstances."""
        return f". {self.sentence.removesuffix('.')}"


Counted = Literal["reported", "outstanding"]
COUNTED: tuple[Counted, ...] = get_args(Counted)


def exposed(exposure: Iterable[Exposure], name: Counted = "reported") -> int:
    """Returns how many attempts of an arm the injections could have hurt, summed over all cycles.

    `exposure` has one entry per injection. `name` is the field of Exposure that is summed. Of each cycle, only the
    injection with the greatest number counts, because the injections of one cycle may have exposed the same attempts.
    """
    most: dict[int, int] = {}
    for injection in exposure:
        most[injection.cycle] = max(most.get(injection.cycle, 0), getattr(injection, name))
    return sum(most.values())


class Cause(_Part, frozen=True):
    """What a program of the user's own did, so that records show an anomaly of effects. The commits of its group and
    the kills of the plan show it.

    * `anomaly`: the anomaly. `count`: the number of cases that the cause explains, among those that were written down.
    * `what`: what the program did, in one sentence.
    * `evidence`: sentences about one of the records: where it stands, when its offset was committed, and by which
      member.
    * `look_for`: what to look for in the program. The most likely comes first.
    """

    anomaly: str
    count: int
    what: str
    evidence: list[str]
    look_for: list[str]


class ArmVerdict(_Part, frozen=True):
    """The verdict of one arm.

    * `as_expected`: whether the arm meets its expectation. `expected`: the expectation in words.
    * `sentence`: sums up the verdict for people.
    * `longest_gap_s`: the longest time in seconds between two consecutive reports of records of one partition. None: it
      is not known.
    * `tally`: the arm's counts by name (attempted, acked, lost, extra_copies ...). The count `resolved_late` is the
      number of INDETERMINATE attempts that stand behind a later attempt in the log. If these attempts count as
      REORDERED, `tally` repeats this number under the name `reordered_late`.
    * `seen_in`: maps each anomaly to the ids of the injections to which the cases of the anomaly belong. A case belongs
      to an injection if its record was under way during the injection. -1: the case belongs to no injection. `seen_in`
      is None for the canary, and for a run whose cases are not listed one by one.
    * `given_up`: the attempts that were given up. None if there are none, or if their number is in doubt or not known.
    * `causes`: what a program of the user's own did, where the evidence shows it. Empty for every other arm.
    * `application`: the program behind the arm's topic and its settings, in lines of text; empty without a program.
    * `examples`: for each anomaly of the arm, one case, and why it came about. Empty for the canary.
    * `client`: the client of the arm's producers in words, e.g. `Java 4.3.1`. Empty in an audit: nobody knows it.
    """

    arm: str
    role: Role
    profile: str
    claim: Claim
    verdict: VerdictName
    as_expected: bool
    expected: str
    sentence: str
    doubts: list[Doubt]
    findings: list[Finding]
    tally: dict[str, int]
    exposure: list[Exposure]
    longest_gap_s: float | None
    seen_in: dict[str, list[int]] | None = None
    given_up: GivenUp | None = None
    causes: list[Cause] = []
    application: list[str] = []
    examples: list[Example] = []
    client: str = ""


class WhichClient(_Part, frozen=True):
    """What the arms with the same settings and different clients say of one anomaly: whose it is.

    * `arms`: the names of these arms. `anomaly`: the anomaly; empty if nothing is said of a single one.
    * `answer`: `every`: all clients show the anomaly, so it is one of the broker or the protocol. `only`: the clients
      in `clients` show it, and the others do not, so it is the client's. `none`: no arm has an anomaly. `open`: nothing
      is attributed.
    * `clients`: the clients that show the anomaly, in words, e.g. `Java 4.3.1`. Empty for `none` and `open`.
    * `sentence`: the answer in words. If it is `open`, the sentence says why.
    """

    arms: list[str]
    anomaly: str
    answer: Literal["every", "only", "none", "open"]
    clients: list[str]
    sentence: str


class CheckedInvariant(_Part, frozen=True):
    """An invariant of the counts, as Great Expectations has checked it: two counts must be equal in each row.

    `meaning`: the invariant in words. `rows`: the number of rows. `broken`: in how many of them the counts differ.
    `holds`: the result. `exception`: the exception that the check raised; empty if there was none.
    """

    invariant: str
    meaning: str
    rows: int
    broken: int
    holds: bool
    exception: str


class RunVerdict(_Part, frozen=True):
    """The verdict of one run: the content of verdict.json.

    * `verdict`: the worst verdict of the subject arms.
    * `green`: whether every arm met its expectation and no arm is INCONCLUSIVE.
    * `sentence`: sums up the verdict for a manager.
    * `limits`: sentences on what the run did not show: how many injections took effect, how many records the injections
      exposed, and how often an anomaly may still occur although the run saw none.
    * `notes`: sentences about the evidence, e.g. which cases were not written down. They change no verdict.
    * `invariants`: the invariants of the counts, as they were checked.
    * `repeat`: the command that repeats the run; empty if there is none.
    * `advice`: what to change in each subject, the worst verdict first. None: that could not be worked out, and a note
      says why.
    * `which_client`: for each set of settings that several clients had, whose each anomaly is.
    """

    run_id: str
    scenario: str
    verdict: VerdictName
    green: bool
    sentence: str
    limits: list[str]
    arms: list[ArmVerdict]
    notes: list[str] = []
    invariants: list[CheckedInvariant] = []
    repeat: str = ""
    advice: list[Advice] | None = None
    which_client: list[WhichClient] = []

    @property
    def exit_code(self) -> int:
        """The exit code of `kdv run`: 0 if the run is green. Else 1 if the run is VIOLATED, whatever doubts other arms
        have. Else 2 if any arm is INCONCLUSIVE, and 1 if none is."""
        if self.green:
            return 0
        in_doubt = any(arm.verdict == "INCONCLUSIVE" for arm in self.arms)
        return 2 if in_doubt and self.verdict != "VIOLATED" else 1


def expected_text(expectation: Expectation) -> str:
    """Returns an expectation in words, e.g. `VIOLATED; LOST >= 1`."""
    bounds = [f"{bound.count} {bound.op} {bound.value}" for bound in expectation.bounds]
    return "; ".join([" or ".join(expectation.verdicts), *bounds])
