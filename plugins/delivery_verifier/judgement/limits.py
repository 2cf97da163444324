"""Limits: the sentences of a verdict about what the run did not show.

The module only words sentences. It decides nothing.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator

from delivery_verifier.judgement.attribution import OUTSIDE, CasesByInjection, confidence_interval
from delivery_verifier.judgement.evaluation import LAWS, LAWS_SINCE, laws_of
from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.judgement.older_runs import limits_of_age
from delivery_verifier.model.scenario import FEWEST_RECORDS, Scenario
from delivery_verifier.model.verdict import COUNTED, exposed
from delivery_verifier.store.books import SECOND_OPINION, SECOND_OPINION_RECORDS
from delivery_verifier.store.counts import LATE

WANTED_BOUND = 0.1
"""An upper bound for the share of injections in which an unseen anomaly may still occur. If a run proves only a greater
bound, `limits` advises to repeat the fault plan more often."""


def limits(evidence: Evidence) -> list[str]:
    """Returns sentences about what the run did not show.

    The sentences say for which anomalies the run was not searched, how many injections bit, how many records the
    injections exposed, and which arms they hurt. The sentences also give the greatest share of injections in which an
    unseen anomaly may still occur.
    """
    biting = evidence.biting
    sentences = [*limits_of_age(evidence), *_unchecked_laws(evidence), _tried(evidence)]
    if biting:
        # Injections of one cycle overlap and belong together. Only cycles are independent of each other.
        rounds = len({injection.cycle for injection in biting})
        unit = "injections" if rounds == len(biting) else "cycles of injections"
        sentences += _hurt(evidence, rounds, unit)
        bound = confidence_interval(0, rounds)[1]
        sentences.append(
            f"An anomaly that was not seen in {rounds} of {rounds} {unit} may still occur in up to {bound:.0%} of them "
            f"(95 % confidence). The bound counts {unit}, not records: records of one injection are not independent."
            + (_advised(evidence.scenario, rounds) if bound > WANTED_BOUND else "")
        )
    sentences.append(
        "One run on one cluster: other fault timings, other loads, other versions, loss of power, full disks and "
        "network partitions that were not injected may give another result."
    )
    return sentences


def _unchecked_laws(evidence: Evidence) -> Iterator[str]:
    """Yields a sentence for every law that was not checked because the run is too old or too large.

    Also yields a sentence for every arm with damaged records: its books were not counted a second time.
    """
    laws = laws_of(evidence)
    for law, sentence in LAWS.items():
        if LAWS_SINCE.get(law, 1) > evidence.format_version:
            yield f"This run is older than the law {law}, which was therefore not checked: {sentence}"
        elif law == SECOND_OPINION and law not in laws:
            yield (
                f"This run has {evidence.offsets.records:,} records. Above {SECOND_OPINION_RECORDS:,}, "
                f"the law {law} is not checked: {sentence}"
            )
    for arm in evidence.loaded if SECOND_OPINION in laws else ():
        if arm.totals.get("corrupted") or arm.totals.get("unattributed"):
            yield f"{arm.name} has damaged records: the law {SECOND_OPINION} was not checked for it."


def _hurt(evidence: Evidence, rounds: int, unit: str) -> Iterator[str]:
    """Yields a sentence that names the hurt arms, and says in how many cycles each arm was hurt.

    `rounds` is the number of cycles with an injection that bit. `unit` is the sentence's word for these cycles. Yields
    nothing if no arm was hurt, or if the run did not write down which records were hurt.
    """
    hurt, unhurt = [], []
    for arm in evidence.loaded:
        if arm.cases_by_injection is None:
            return
        rounds_by_kind = _rounds_with_cases(evidence, arm.cases_by_injection)
        hit = set().union(*rounds_by_kind.values())
        if not hit:
            if LATE not in arm.totals:  # the times of late attempts are unknown, and so is what caused them
                unhurt.append(arm.name)
            continue
        low, high = confidence_interval(len(hit), rounds)
        kinds = ", ".join(f"{kind} {len(cycles)}" for kind, cycles in rounds_by_kind.items() if cycles)
        hurt.append(f"{arm.name} in {len(hit)} ({kinds}; that may be {low:.0%} to {high:.0%} of all)")
    if hurt:
        none = f"; none hurt {', '.join(unhurt)}" if unhurt else ""
        yield f"Of {rounds} {unit}, so many hurt an arm: {', '.join(hurt)}{none}."


def _rounds_with_cases(evidence: Evidence, cases: CasesByInjection) -> dict[str, set[int]]:
    """Maps an anomaly to the numbers of the cycles in which an injection hurt records in this way."""
    cycles = {injection.id: injection.cycle for injection in evidence.injections}
    return {kind: {cycles[number] for number in ids if number != OUTSIDE} for kind, ids in cases.items()}


def _advised(scenario: Scenario, rounds: int) -> str:
    """Returns advice on how often to repeat the fault, so that the bound for an unseen anomaly falls to WANTED_BOUND.

    `rounds` is the number of cycles of this run in which an injection bit. If the command of the run is known, the
    advice repeats it with the needed number of cycles. For a scenario of the catalogue, which has a fixed number of
    cycles, the advice says how many runs to make.
    """
    needed = math.ceil(math.log(0.05) / math.log(1 - WANTED_BOUND))
    text = f" To bring that down to {WANTED_BOUND:.0%}, the fault must be repeated {needed} times"
    words = shlex.split(scenario.command)
    if not words:
        return f"{text}."
    if "--scenario" in words:
        return f"{text}: this takes {math.ceil(needed / rounds)} runs of `{scenario.command}`."
    # With fewer records, the planner refuses so many cycles. A run of an older version may have had fewer.
    least = max(scenario.min_exposed * needed, FEWEST_RECORDS)
    if max(arm.records for arm in scenario.subjects) < least:
        words = _with_option(words, "--records", least)
    return f"{text}: `{shlex.join(_with_option(words, '--cycles', needed))}`."


def _with_option(words: list[str], option: str, value: int) -> list[str]:
    """Returns the words of a command with `value` as the value of `option`."""
    position = words.index(option) if option in words else len(words)
    return [*words[:position], option, str(value), *words[position + 2 :]]


def _tried(evidence: Evidence) -> str:
    """Returns a sentence that says how many injections bit, and how many attempts of each arm they could have hurt."""
    biting = len(evidence.biting)
    if not biting:
        done = "No injected fault is proven to have bitten" if evidence.injections else "No fault was injected"
        return f"{done}: this run says nothing of what a fault would do."
    sums = {name: [f"{arm.name} {exposed(arm.exposure, name):,}" for arm in evidence.loaded] for name in COUNTED}
    injections = "injection" if biting == 1 else "injections"
    return (
        f"{biting} {injections} that bit; reported records exposed to them: "
        f"{', '.join(sums['reported'])}; attempts outstanding when they bit: {', '.join(sums['outstanding'])}."
    )
