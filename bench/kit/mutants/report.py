"""The page of results of mutation testing."""

from __future__ import annotations

import math
from collections.abc import Mapping

from bench.kit.mutants.results import Explanation, ModuleResult

LEAST_KILLED = 0.95
"""The least share of all mutants that the tests must kill."""

HEAD = """# Mutation testing

`make mutants` changes the code that decides, in one small place at a time, and runs the unit tests of its room until
one fails: the mutant is killed. `bench/campaigns/mutants.py` says how, and `bench/kit/mutants/changes.py` which changes
there are. Of `spark_jobs/`, it changes matching, anomalies and invariants; the trials of matching and anomalies share
one JVM.
"""


def totals(results: Mapping[str, ModuleResult], explained: list[Explanation]) -> tuple[float, int]:
    """Returns the share of mutants that were killed, and the number of survivors without an explanation."""
    mutants = sum(result.mutants for result in results.values())
    survivors = sum(len(result.survivors) for result in results.values())
    reasons = _reasons(explained)
    unexplained = sum(
        (module, survivor.change) not in reasons for module, result in results.items() for survivor in result.survivors
    )
    return (mutants - survivors) / mutants if mutants else 0.0, unexplained


def interval(successes: int, trials: int) -> tuple[float, float]:
    """Returns Wilson's 95 % interval of a share (Wilson 1927, doi:10.1080/01621459.1927.10502953)."""
    z = 1.959964
    share, square = successes / trials, z * z / trials
    middle = (share + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(share * (1 - share) / trials + square / (4 * trials))
    return max(0.0, middle - half), min(1.0, middle + half)


def report_of_sample(
    results: Mapping[str, ModuleResult], total: int, commit: str, words: list[str], explained: list[Explanation]
) -> str:
    """Returns the page of a sample of mutants in Markdown. `total`: how many mutants the modules with `words` have."""
    reasons = _reasons(explained)
    mutants = sum(result.mutants for result in results.values())
    killed, unexplained = totals(results, explained)
    low, high = interval(round(killed * mutants), mutants)
    survivors = [(module, each.change) for module, result in results.items() for each in result.survivors]
    timed_out = sum(each.timed_out for each in results.values())
    lines = [
        "# Mutation testing: a sample",
        "",
        f"`{' '.join(('python bench/campaigns/mutants.py --sample', str(mutants), *words))}` tried {mutants:,} of",
        f"{total:,} mutants, chosen by their digests.",
        f"**{killed:.1%}** were killed (95 % interval: {low:.1%} to {high:.1%}).",
        f"{len(survivors)} survived, {unexplained} of them without an explanation.",
        f"Only because their tests took too long, {timed_out} were killed.",
        "",
        *sorted({f"{each.date}; commit {commit}; {each.machine}; {_versions(each)}" for each in results.values()}),
        "",
        "| module | tried | killed |",
        "|---|---|---|",
    ]
    for module, result in results.items():
        if result.mutants:
            lines.append(f"| {_short(module)} | {result.mutants} | {result.mutants - len(result.survivors)} |")
    lines += ["", "## Survivors", ""]
    for module, (scope, before, after) in survivors:
        why = reasons.get((module, (scope, before, after)), "**not explained**")
        lines.append(f"* {_short(module)} {scope}: `{before}` → `{after}`: {why}")
    return "\n".join(lines) + "\n"


def report(results: Mapping[str, ModuleResult], missing: list[str], explained: list[Explanation]) -> str:
    """Returns the page in Markdown. `missing` are the modules without a result for their present text and tests."""
    reasons = _reasons(explained)
    killed, unexplained = totals(results, explained)
    mutants = sum(result.mutants for result in results.values())
    mutated = f"{mutants:,} mutants in {len(results)} of {len(results) + len(missing)} modules"
    lines = [
        HEAD,
        f"**{killed:.1%}** of {mutated} were killed; survivors without an explanation: {unexplained}.",
        *(["", f"Not tried as they are today: {', '.join(map(_short, missing))}."] if missing else []),
        "",
        *sorted(
            {
                f"{result.date}; commit {result.commit or 'unknown'}; {result.machine}; {_versions(result)}"
                for result in results.values()
            }
        ),
        "",
        "| module | mutants | killed | by time | survived | explained | last trials took |",
        "|---|---|---|---|---|---|---|",
    ]
    for module, result in results.items():
        survivors = [(module, survivor.change) for survivor in result.survivors]
        lines.append(
            f"| {_short(module)} | {result.mutants} | {result.mutants - len(survivors)} | {result.timed_out} | "
            f"{len(survivors)} | "
            f"{sum(survivor in reasons for survivor in survivors)} | {result.took_s:.0f} s |"
        )
    lines += ["", "## Survivors", ""]
    for module, result in results.items():
        for survivor in result.survivors:
            why = reasons.get((module, survivor.change), "**not explained**")
            where = f"{_short(module)} {survivor.scope}".strip()
            lines.append(f"* {where}: `{survivor.before}` → `{survivor.after}`: {why}")
    return "\n".join(lines) + "\n"


def _reasons(explained: list[Explanation]) -> dict[tuple[str, tuple[str, str, str]], str]:
    return {(explanation.module, explanation.change): explanation.why for explanation in explained}


def _versions(result: ModuleResult) -> str:
    return ", ".join(f"{name} {version}" for name, version in result.versions.items())


def _short(module: str) -> str:
    return module.removeprefix("plugins/delivery_verifier/")
