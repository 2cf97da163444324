"""Limits: the sentences of a verdict about what the run did not show.

The module only writes sentences. It decides nothing.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator

from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.verdict import COUNTED, exposed
from delivery_verifier.run_directory.counts import LATE
from delivery_verifier.run_directory.tally import SECOND_OPINION, SECOND_OPINION_RECORDS
from delivery_verifier.verdict import audits, external, ordered
from delivery_verifier.verdict.attribution import OUTSIDE, CasesByInjection, confidence_interval
from delivery_verifier.verdict.evaluation import INVARIANTS, invariants_of
from delivery_verifier.verdict.evidence import Evidence

WANTED_BOUND = 0.1
"""An upper bound for the share of injections in which an unseen anomaly may still occur. If a run proves only a greater
bound, `limits` advises to repeat the fault plan more often."""


def limits(evidence: Evidence) -> list[str]:
    """Returns sentences about what the run did not show.

    The first sentences name what the invariant SECOND_OPINION did not check. The next sentences say how many injections
    took effect, how many records the injections exposed, which arms they hurt, and how often an unseen anomaly may
    still occur. The last sentences name what is not checked in any run of this kind.
    """
    if (audit := evidence.scenario.audit) is not None:
        return [*_unchecked_invariants(evidence), *audits.limits(evidence, audit)]
    effective = evidence.effective
    sentences = [
        *_unchecked_invariants(evidence),
        _tried(evidence),
        *external.limits(evidence),
        *ordered.limits(evidence),
    ]
    if effective:
        # Injections of one cycle overlap and belong together. Only cycles are independent of each other.
        rounds = len({injection.cycle for injection in effective})
        unit = "faults" if rounds == len(effective) else "cycles of faults"
        sentences += _hurt(evidence, rounds, unit)
        sentences.append(_bound(evidence.scenario, rounds, unit))
    sentences += [
        f"The order in which the application of {arm.name} applied records was not checked: its effects do not say at "
        "which offset a record stood."
        for arm in evidence.scenario.subjects
        if arm.application and arm.application.discipline == "own"
    ]
    sentences.append(
        "One run on one cluster: other fault timings, other loads, other versions, loss of power, full disks and "
        "network partitions that were not injected may give another result."
    )
    return sentences


def _bound(scenario: Scenario, rounds: int, unit: str) -> str:
    """Returns the sentence about how often an anomaly that was not seen may still occur. If this share is above
    WANTED_BOUND, adds advice on how to lower it.

    `rounds` is the number of cycles with an injection that took effect. `unit` is the sentence's word for these cycles.
    Only cycles count, because the records of one injection are not independent.
    """
    bound = confidence_interval(0, rounds)[1]
    which = "such faults" if unit == "faults" else "such cycles"
    few = "One fault proves" if unit == "faults" else "One cycle of faults proves"
    kind = f"{few} little: an anomaly not seen here" if rounds == 1 else f"An anomaly not seen in {rounds} {unit}"
    text = f"{kind} may still occur in up to {_percent(bound)} of {which} (95 % confidence)."
    return text + (_advised(scenario, rounds) if bound > WANTED_BOUND else "")


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _unchecked_invariants(evidence: Evidence) -> Iterator[str]:
    """Yields a sentence if the invariant SECOND_OPINION was not checked because the run is too large.

    Else yields a sentence for every arm with damaged records, because nobody counted the counts of such an arm a second
    time.
    """
    if SECOND_OPINION not in invariants_of(evidence):
        yield (
            f"This run has {evidence.offsets.records:,} records. Above {SECOND_OPINION_RECORDS:,}, "
            f"the invariant {SECOND_OPINION} is not checked: {INVARIANTS[SECOND_OPINION]}"
        )
        return
    for arm in evidence.loaded:
        if arm.totals.get("corrupted") or arm.totals.get("unattributed"):
            which = "damaged records, or records without an identity" if evidence.scenario.audit else "damaged records"
            yield f"{arm.name} has {which}: the invariant {SECOND_OPINION} was not checked for it."


def _hurt(evidence: Evidence, rounds: int, unit: str) -> Iterator[str]:
    """Yields one sentence, which names the hurt arms and the unhurt arms, and says in how many cycles each arm was
    hurt.

    `rounds` is the number of cycles with an injection that took effect. `unit` is the sentence's word for these cycles.
    Yields nothing if no arm was hurt, or if the run did not write down which records were hurt.
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
        kinds = ", ".join(
            kind if rounds == 1 else f"{kind} in {len(cycles)}" for kind, cycles in rounds_by_kind.items() if cycles
        )
        times = "" if rounds == 1 else f" in {len(hit)}"
        hurt.append(f"{arm.name}{times} ({kinds}; 95 % confidence: {_percent(low)} to {_percent(high)} of such {unit})")
    if hurt:
        only = "The fault" if unit == "faults" else "The cycle of faults"
        begin = f"{only} hurt" if rounds == 1 else f"Of {rounds} {unit}, some hurt"
        none = f", and not {', '.join(unhurt)}" if unhurt else ""
        yield f"{begin} {', '.join(hurt)}{none}."


def _rounds_with_cases(evidence: Evidence, cases: CasesByInjection) -> dict[str, set[int]]:
    """Maps an anomaly to the numbers of the cycles in which an injection caused cases of the anomaly."""
    cycles = {injection.id: injection.cycle for injection in evidence.injections}
    return {kind: {cycles[number] for number in ids if number != OUTSIDE} for kind, ids in cases.items()}


def _advised(scenario: Scenario, rounds: int) -> str:
    """Returns advice on how often to repeat the fault, so that an unseen anomaly may occur in at most WANTED_BOUND of
    all faults.

    `rounds` is the number of cycles of this run in which an injection took effect. If the command of the run is known,
    the advice gives this command with the needed number of cycles. A scenario of the catalogue has a fixed number of
    cycles. For such a scenario, the advice says how many runs to make.
    """
    needed = math.ceil(math.log(0.05) / math.log(1 - WANTED_BOUND))
    text = f" To bring that down to {_percent(WANTED_BOUND)}, the fault must be repeated {needed} times"
    words = shlex.split(scenario.command)
    if not words or scenario.fault.by_others:  # nobody can be told to break it so often
        return f"{text}."
    if "--scenario" in words:
        runs = math.ceil(needed / rounds)  # at least 2: after `needed` rounds, the bound is low enough
        return f"{text}: this takes {runs} runs of `{scenario.command}`."
    # With fewer records, the planner refuses so many cycles.
    least = scenario.min_exposed * needed
    if max(arm.records for arm in scenario.subjects) < least:
        words = with_option(words, "--records", least)
    return f"{text}: `{shlex.join(with_option(words, '--cycles', needed))}`."


def with_option(words: list[str], option: str, value: object) -> list[str]:
    """Returns the words of a command with `value` as the value of `option`."""
    position = words.index(option) if option in words else len(words)
    return [*words[:position], option, str(value), *words[position + 2 :]]


def _tried(evidence: Evidence) -> str:
    """Returns a text that says how many injections took effect, and how many attempts of each arm the injections could
    have hurt."""
    effective = len(evidence.effective)
    if not effective:
        done = "No injected fault is proven to have taken effect" if evidence.injections else "No fault was injected"
        return f"{done}: this run does not show what a fault would do."
    sums = {name: [f"{exposed(arm.exposure, name):,} of {arm.name}" for arm in evidence.loaded] for name in COUNTED}
    faults = "1 fault took effect" if effective == 1 else f"{effective} faults took effect"
    return (
        f"{faults}. Records in flight at that moment: {', '.join(sums['outstanding'])}. "
        f"Records exposed until recovery: {', '.join(sums['reported'])}."
    )
