"""The scenarios with an application, each three times, exactly: what was expected of every arm, and what was seen.

`python bench/applications.py [--entries a,b] [--rounds N]`, or `make campaign PART=applications`. After Ctrl-C, or any
other end, the same command takes up the campaign where it ended, if commit, versions and host are still the same;
otherwise it begins another. The page docs/results/applications-<date>.md is written anew after each run of a scenario.
The exit code is 1 if an arm was not as expected in a round.
"""

from __future__ import annotations

import signal
import statistics
import sys
from datetime import date

import saved

from delivery_verifier import catalogue
from delivery_verifier.catalogue_run import begin, selection
from delivery_verifier.catalogue_run.directly import runner
from delivery_verifier.catalogue_run.loop import Loop
from delivery_verifier.catalogue_run.progress import Progress
from delivery_verifier.cluster import lease
from delivery_verifier.host import folders
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.catalogue_run import Attempt, CatalogueRun, Item
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Bound
from delivery_verifier.store import catalogue_runs
from delivery_verifier.store.counts import case_counts

RECENT = 50
"""How many of the newest catalogue runs are looked through for an unfinished campaign, and for the usual seconds."""
USUAL_S = 45.0
"""The seconds of one run of a scenario, for the estimate on a host without earlier runs."""


def main() -> int:
    """Begins a campaign or takes up the unfinished one, and writes the page. Returns the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raises SystemExit, so that the cluster is ended
    every = [name for name, entry in catalogue.ENTRIES.items() if any(arm.application for arm in entry.arms)]
    parser = saved.option_parser(__doc__)
    parser.add_argument("--entries", default=",".join(every))
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    lease.require_free_host()
    campaign = _begun(arguments.entries.split(","), arguments.rounds)
    target = saved.RESULTS / f"applications-{date.today()}.md"

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
    return 0 if finished.green else 1


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


def _lines_of(name: str, items: list[Item]) -> list[str]:
    """Returns the lines of one scenario. `items`: its rounds. The last attempt of a round counts."""
    last = [item.attempts[-1] for item in items if item.attempts]
    if not last:
        return [f"| {name} |  |  |  |  | {items[0].unavailable or 'not run yet'} |"]
    lines = [f"| {name} |  |  | {attempt.error} |  | no verdict |" for attempt in last if attempt.verdict is None]
    for arm in catalogue.ENTRIES[name].arms:
        lines += _line_of(name, arm.name, [attempt for attempt in last if attempt.verdict is not None])
    return lines


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
