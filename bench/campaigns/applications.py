"""The scenarios with an application, each three times: what was expected of every arm, and what was seen.

Most scenarios are exact: the counts of every run are known beforehand. A statistical scenario has ten arms with the
same profile and the same application, side by side under the same fault. Chance decides which of them are hurt, and the
page says how many were, beside the number that was expected (see `SHARES`).

`python bench/campaigns/applications.py [--entries a,b] [--rounds N]`, or `make campaign PART=applications`. After
Ctrl-C, or any other end, the same command takes up the campaign where it ended, if commit, versions and host are still
the same; otherwise it begins another. The page docs/results/applications-<date>.md is written anew after each run of a
scenario. With --entries, the page is applications-<date>-part.md, so that it does not replace the page of all
scenarios. The exit code is 1 if an arm or a share was not as expected in a round.
"""

from __future__ import annotations

import signal
import statistics
import sys
from datetime import date

from msgspec import Struct

from bench.kit import saved
from delivery_verifier import catalogue
from delivery_verifier.cluster import lease
from delivery_verifier.host import folders
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.catalogue_run import Attempt, CatalogueRun, Item
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Bound
from delivery_verifier.run_directory import catalogue_runs
from delivery_verifier.run_directory.counts import case_counts
from delivery_verifier.suite import begin, selection
from delivery_verifier.suite.directly import runner
from delivery_verifier.suite.loop import Loop
from delivery_verifier.suite.progress import Progress

RECENT = 50
"""How many of the newest catalogue runs are looked through for an unfinished campaign, and for the usual seconds."""
USUAL_S = 45.0
"""The seconds of one run of a scenario, for the estimate on a host without earlier runs."""


class Share(Struct, frozen=True, kw_only=True):
    """How many of the arms with `application` must have at least one case of `anomaly`: `least` to `most`, in each
    run."""

    application: str
    anomaly: Anomaly
    least: int
    most: int

    def hurt_arms(self, attempt: Attempt) -> tuple[int, int]:
        """Returns how many of the arms with the application have a case of the anomaly, and how many such arms there
        are. An INCONCLUSIVE arm is not among them."""
        arms = [arm for arm in attempt.arms if arm.application == self.application and arm.verdict != "INCONCLUSIVE"]
        return sum(sum(case_counts(arm.counts, self.anomaly)) > 0 for arm in arms), len(arms)

    def is_met(self, attempt: Attempt, planned: int) -> bool:
        """Returns whether the share in `attempt` is as expected. `planned`: the number of arms with the application.

        An INCONCLUSIVE arm makes it not as expected.
        """
        hurt, arms = self.hurt_arms(attempt)
        return arms == planned and self.least <= hurt <= self.most


SHARES: dict[str, tuple[Share, ...]] = {
    "group.killed_member": (
        Share(application="at_handover", anomaly=Anomaly.SKIPPED, least=1, most=9),
        Share(application="at_handover", anomaly=Anomaly.REAPPLIED, least=1, most=9),
    ),
    "group.stall": (
        Share(application="at_handover", anomaly=Anomaly.REAPPLIED, least=1, most=9),
        Share(application="at_handover", anomaly=Anomaly.OVERTAKEN, least=1, most=9),
    ),
}
"""The statistical scenarios. The fault hits their ten arms half an interval of the client's timer after the hand-over.
So each is hurt with a probability of about one half, and all or none of ten in one of some hundred runs."""


def main() -> int:
    """Begins a campaign or takes up the unfinished one, and writes the page. Returns the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raises SystemExit, so that the cluster is ended
    every = [name for name, entry in catalogue.ENTRIES.items() if any(arm.application for arm in entry.arms)]
    parser = saved.option_parser(__doc__)
    parser.add_argument("--entries", default=",".join(every))
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    lease.require_free_host()
    entries = arguments.entries.split(",")
    campaign = _begun(entries, arguments.rounds)
    part = "" if set(entries) == set(every) else "-part"
    target = saved.RESULTS / f"applications-{date.today()}{part}.md"

    def write(state: CatalogueRun) -> None:
        target.write_text(report(state))

    progress = Progress(sys.stderr)
    progress.begin(campaign, f"about {_estimate_s(campaign) / 60:.0f} min; after Ctrl-C, the same command goes on")

    def attempt_ended(state: CatalogueRun, item: Item) -> None:
        progress.attempt_ended(state, item)
        write(state)

    try:
        with runner(progress.step_changed) as direct_runner:
            finished = Loop(campaign, direct_runner, attempt_ended).run()
    except KeyboardInterrupt:
        progress.say(f"interrupted: the same command takes up {campaign.id} again")
        return 130
    write(finished)
    print(target.read_text())
    return 0 if finished.green and are_met(finished) else 1


def _begun(entries: list[str], rounds: int) -> CatalogueRun:
    """Returns the newest unfinished campaign of these entries and rounds, ready to go on; otherwise a new one."""
    for known in catalogue_runs.newest(RECENT):
        planned = [item.name for item in known.items]
        if (
            not known.ended_at
            and known.rounds == rounds
            and known.direct
            and sorted(planned) == sorted(entries * rounds)
        ):
            try:
                return begin.resume(known.id)
            except BadInput as refused:
                print(refused, file=sys.stderr)
    return begin.begin(
        f"applications-{folders.new_run_id()}",
        names=entries,
        expect_unavailable=selection.expected_here(),
        rounds=rounds,
        direct=True,
    )


def _estimate_s(campaign: CatalogueRun) -> float:
    """Returns how many seconds the open items will take, by the runs of these scenarios that this host has had."""
    names = {item.name for item in campaign.items}
    seconds = [
        attempt.seconds
        for known in catalogue_runs.newest(RECENT)
        for item in known.items
        if item.name in names
        for attempt in item.attempts
    ]
    return len(campaign.open) * (statistics.median(seconds) if seconds else USUAL_S)


def report(campaign: CatalogueRun) -> str:
    """Returns the page as Markdown: one line per arm, with the expected counts and those of each round."""
    attempts = [attempt for item in campaign.items for attempt in item.attempts]
    minutes = sum(attempt.seconds for attempt in attempts) / 60
    versions = ", ".join(f"{name} {version}" for name, version in campaign.versions.items())
    lines = [
        "# Applications",
        "",
        f"`make campaign PART=applications` at {campaign.commit}; {campaign.started_at[:10]}; {campaign.machine}; "
        f"{versions}.",
        "",
        f"{campaign.count('as expected')} of {len(campaign.items)} runs as expected, {len(campaign.open)} still to do; "
        f"{len(attempts)} attempts took {minutes:.1f} min in sum; began {campaign.started_at}, "
        f"ended {campaign.ended_at or 'not yet'}.",
        "",
        "| scenario | arm | expected | verdicts | counts, round by round | as expected |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(item.name for item in campaign.items):
        lines += _lines_of(name, [item for item in campaign.items if item.name == name])
    return "\n".join([*lines, ""])


def are_met(campaign: CatalogueRun) -> bool:
    """Returns whether every share of every run with a verdict is as expected. The last attempt of a round counts."""
    last = [(item.name, item.attempts[-1]) for item in campaign.items if item.attempts]
    return all(
        share.is_met(attempt, _planned(name, share))
        for name, attempt in last
        if attempt.verdict is not None
        for share in SHARES.get(name, ())
    )


def _planned(name: str, share: Share) -> int:
    """Returns how many arms of the scenario have the application of `share`."""
    arms = catalogue.ENTRIES[name].arms
    return sum(arm.application is not None and arm.application.name == share.application for arm in arms)


def _lines_of(name: str, items: list[Item]) -> list[str]:
    """Returns the lines of one scenario. `items`: its rounds. The last attempt of a round counts."""
    last = [item.attempts[-1] for item in items if item.attempts]
    if not last:
        return [f"| {name} |  |  |  |  | {items[0].unavailable or 'not run yet'} |"]
    lines = [f"| {name} |  |  | {attempt.error} |  | no verdict |" for attempt in last if attempt.verdict is None]
    judged = [attempt for attempt in last if attempt.verdict is not None]
    lines += [_line_of_share(name, share, judged) for share in SHARES.get(name, ()) if judged]
    for arm in catalogue.ENTRIES[name].arms:
        lines += _line_of(name, arm.name, judged)
    return lines


def _line_of_share(name: str, share: Share, attempts: list[Attempt]) -> str:
    """Returns the line of a share: in how many arms the anomaly was expected and seen, round by round."""
    planned = _planned(name, share)
    rounds = ", ".join("{} of {}".format(*share.hurt_arms(attempt)) for attempt in attempts)
    good = f"{sum(share.is_met(attempt, planned) for attempt in attempts)} of {len(attempts)}"
    expected = f"{share.anomaly} in {share.least} to {share.most} of {planned} arms"
    return f"| {name} | all with {share.application} | {expected} |  | {share.anomaly} in {rounds} arms | {good} |"


def _line_of(name: str, arm: str, attempts: list[Attempt]) -> list[str]:
    """Returns the line of one arm in `attempts`, which have verdicts. Returns no line if there is no attempt."""
    bounds = next(planned for planned in catalogue.ENTRIES[name].arms if planned.name == arm).expectation.bounds
    results = [result for attempt in attempts for result in attempt.arms if result.arm == arm]
    if not results:
        return []
    counted = [
        f"{bound.count} {', '.join(str(_count(bound, result.counts)) for result in results)}" for bound in bounds
    ]
    verdicts = ", ".join(result.verdict for result in results)
    good = f"{sum(result.as_expected for result in results)} of {len(results)}"
    return [f"| {name} | {arm} | {results[0].expected} | {verdicts} | {'; '.join(counted) or '–'} | {good} |"]


def _count(bound: Bound, counts: dict[str, int]) -> int:
    """Returns what the run has counted of what `bound` is about."""
    if bound.count in Anomaly.__members__:
        return sum(case_counts(counts, Anomaly(bound.count)))
    return counts.get(bound.count, 0)


if __name__ == "__main__":
    sys.exit(main())
