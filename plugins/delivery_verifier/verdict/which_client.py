"""Which client did it: compares the arms that have the same settings under different clients.

An anomaly that both clients show is one of the broker or the protocol. An anomaly that one client alone shows is one of
this client. Both sentences are easily false, so they are said only if

* no arm of the comparison has a doubt, and each was exposed: an arm that nothing could hurt shows nothing
* what is said of both was seen under one and the same fault, and no rule of the contract permits it to one client alone
* a client is acquitted only where it was exposed at least as much as the other, in the same cycle, and gave up no more
* chance cannot have done it: the load was scripted, the contract knows the difference, and the one client shows it in
  every such cycle; or the cycles are enough (Fisher's exact test). A scripted load alone excludes no race
* whose records these are is known
* the clients waited equally long for an answer, or the contract knows the difference.

In every other case nothing is attributed, and the sentence says why. All functions are pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb

from msgspec.structs import replace

from delivery_verifier.contract.rules import RULES
from delivery_verifier.contract.rulings import contract
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import EFFECTS, Anomaly, subset
from delivery_verifier.model.figures import enumeration
from delivery_verifier.model.late_ends import answered_ends
from delivery_verifier.model.scenario import Arm, Expectation
from delivery_verifier.model.verdict import COUNTED, ArmVerdict, WhichClient, exposed
from delivery_verifier.run_directory.counts import UNPROVEN
from delivery_verifier.verdict.attribution import CONFIDENCE
from delivery_verifier.verdict.evidence import ArmEvidence, Evidence

NOT_OF_A_CLIENT = (Anomaly.RESENT,)
"""The anomalies that no client causes: the application sends again."""
OF_UNKNOWN_SENDERS = subset("what records of others show", (Anomaly.CORRUPTED, Anomaly.MISROUTED, Anomaly.PHANTOM))
"""The anomalies that the records of other senders show, too, in the topic of an arm."""
OF_RETRIES = subset("what sending again causes", (Anomaly.DUPLICATED, Anomaly.REORDERED))
"""The anomalies that depend on how long a client waits for an answer before it sends again."""


@dataclass(frozen=True)
class _Side:
    """One arm of a comparison: what is known of it, and its verdict."""

    evidence: ArmEvidence
    verdict: ArmVerdict

    @property
    def name(self) -> str:
        return self.evidence.name

    @property
    def words(self) -> str:
        return self.evidence.spec.versioned_client.words

    @property
    def library(self) -> str:
        return self.evidence.spec.client

    def cases(self, anomaly: Anomaly, *, broken: bool | None = None) -> int:
        """Returns the number of cases of `anomaly`; with `broken`, of those that convict, or of the others."""
        return sum(
            finding.cases
            for finding in self.verdict.findings
            if finding.anomaly == anomaly and (broken is None or finding.broken is broken)
        )

    def injections_with(self, anomaly: Anomaly) -> set[int]:
        """Returns the ids of the injections to which cases of `anomaly` belong, as far as they were written down."""
        took_effect = {injection.id for injection in self.evidence.run.effective}
        return took_effect & set((self.verdict.seen_in or {}).get(anomaly, []))

    def cycles_with(self, anomaly: Anomaly) -> set[int]:
        """Returns the cycles of these injections."""
        ids = self.injections_with(anomaly)
        return {injection.cycle for injection in self.evidence.run.effective if injection.id in ids}

    def exposure_in(self, cycle: int) -> tuple[int, ...]:
        """Returns how many attempts the injections of one cycle could have hurt, for each kind of count in COUNTED."""
        of_cycle = [each for each in self.verdict.exposure if each.cycle == cycle]
        return tuple(exposed(of_cycle, name) for name in COUNTED)

    @property
    def is_exposed(self) -> bool:
        return exposed(self.verdict.exposure) > 0

    @property
    def without_outcome(self) -> int:
        """How many attempts the client gave up, or cannot tell the outcome of."""
        return sum(self.verdict.tally.get(name, 0) for name in ("failed", "indeterminate"))

    @property
    def strangers(self) -> int:
        """How many records stand in the arm's topic that no attempt of the arm accounts for."""
        return sum(self.verdict.tally.get(name, 0) for name in ("phantoms", "unattributed"))

    @property
    def settings(self) -> Settings:
        return Settings.of_arm(self.evidence.run.scenario, self.evidence.spec)

    @property
    def done_to_it(self) -> set[tuple[str, int]]:
        """The kinds of disturbances of the arm's topic, with the partitions. Late ends of transactions are left out:
        they disturb an arm only if a broker accepts them, and whether it does depends on the client."""
        topic = self.evidence.spec.topic_name
        disturbed = [each for each in self.evidence.disturbances if each.topic == topic and each.kind != "late_end"]
        return {(each.kind, partition) for each in disturbed for partition in each.partitions}

    @property
    def overtaken_ends(self) -> Counter[int]:
        """How many ends of the arm's transactions came late and were overtaken, by the id of the injection."""
        ids = set(self.evidence.spec.transactional_ids)
        return Counter(
            injection.id
            for injection in self.evidence.run.effective
            for end in answered_ends(injection)
            if end.is_overtaken and end.transactional_id in ids
        )


def which_client(evidence: Evidence, judged: Sequence[ArmVerdict]) -> list[WhichClient]:
    """Returns what can be said of the clients, for each set of settings that several clients had. `judged`: the
    verdicts of the arms, in their order. Empty if the run has one client."""
    verdicts = {verdict.arm: verdict for verdict in judged}
    groups: list[list[_Side]] = []
    for arm in evidence.loaded:
        side = _Side(arm, verdicts[arm.name])
        for group in groups:
            if _without_client(group[0].evidence.spec) == _without_client(arm.spec):
                group.append(side)
                break
        else:
            groups.append([side])
    return [answer for group in groups if len(group) > 1 for answer in _of_group(group)]


def _without_client(arm: Arm) -> Arm:
    """Returns `arm` without what differs between the arms of one comparison."""
    plain = {"name": "arm", "ordinal": 0, "topic_name": "arm", "expectation": Expectation()}
    application = arm.application and replace(arm.application, client="librdkafka", client_version="")
    return replace(arm, **plain, client="librdkafka", client_version="", application=application)


def _of_group(group: list[_Side]) -> Iterator[WhichClient]:
    if why := _not_comparable(group):
        yield _answer(group, None, "open", f"nothing is attributed to a client, because {why}")
        return
    anomalies = [each for each in Anomaly if each not in NOT_OF_A_CLIENT and any(side.cases(each) for side in group)]
    for anomaly in anomalies:
        showing = [side for side in group if side.cases(anomaly)]
        silent = [side for side in group if not side.cases(anomaly)]
        why = _why_open_for_some(anomaly, showing, silent) if silent else _why_open_for_all(anomaly, showing)
        why = _why_not_its_client(anomaly, group[0].evidence.spec) or why
        if why:
            said = f"{anomaly} ({_figures(group, anomaly)}) is attributed to no client, because {why}"
            yield _answer(group, anomaly, "open", said)
        elif silent:
            yield _answer(group, anomaly, "only", _only(anomaly, showing, silent), showing)
        else:
            causes = f"{_discipline(anomaly)}broker or protocol, not one client alone"
            said = (
                f"{anomaly} with every client ({_figures(group, anomaly)}), under the same fault. "
                f"{'Both' if len(group) == 2 else 'All'}: {causes}"
            )
            yield _answer(group, anomaly, "every", said, showing)
    if not anomalies:
        clients = enumeration([side.words for side in group], "and")
        yield _answer(group, None, "none", f"no anomaly with {clients}: there is nothing to attribute")


def _why_not_its_client(anomaly: Anomaly, arm: Arm) -> str:
    """Returns why the client of `arm` has no part in the anomaly. An empty text if it may have one."""
    is_own = arm.application is not None and arm.application.discipline == "own"
    return "a user application brings its own client" if is_own and anomaly in EFFECTS else ""


def _discipline(anomaly: Anomaly) -> str:
    """Returns the cause that effects have beside broker and protocol: when the application commits."""
    return "the discipline of the application, " if anomaly in EFFECTS else ""


def _answer(
    group: list[_Side], anomaly: Anomaly | None, answer: str, said: str, clients: Sequence[_Side] = ()
) -> WhichClient:
    return WhichClient(
        arms=[side.name for side in group],
        anomaly=anomaly.value if anomaly else "",
        answer=answer,  # type: ignore[arg-type]
        clients=[side.words for side in clients],
        sentence=f"{enumeration([side.name for side in group], 'and')}: {said}.",
    )


def _figures(group: Sequence[_Side], anomaly: Anomaly) -> str:
    return ", ".join(f"{side.words} {side.cases(anomaly):,}" for side in group)


def _not_comparable(group: list[_Side]) -> str:
    """Returns why nothing can be said of the arms, whatever they show. An empty text if they can be compared."""
    for side in group:
        if side.verdict.verdict == "INCONCLUSIVE":
            return f"{side.name} ({side.words}) is INCONCLUSIVE"
        if side.verdict.doubts:
            return f"{side.name} ({side.words}) has the doubt {side.verdict.doubts[0].name}"
        if not side.is_exposed:
            return f"no fault exposed {side.name} ({side.words})"
    return ""


def _why_open_for_all(anomaly: Anomaly, group: list[_Side]) -> str:
    """Returns why an anomaly that every arm shows may all the same be one client's. An empty text if it is not."""
    if len({side.library for side in group}) == 1:
        return f"every arm has {group[0].words.split()[0]}: that tells no client from the broker"
    convicted = [side for side in group if side.cases(anomaly, broken=True)]
    if convicted and len(convicted) < len(group):
        others = enumeration([side.words for side in group if side not in convicted], "and")
        return f"it convicts {enumeration([side.words for side in convicted], 'and')}, and is permitted with {others}"
    for side in group:
        if rule := _own_rule(anomaly, side, group):
            return f"a rule permits it with {side.words} and not with every client ({rule})"
    if not set.intersection(*(side.injections_with(anomaly) for side in group)):
        return "no single fault made every client show it"
    return ""


def _own_rule(anomaly: Anomaly, side: _Side, group: Sequence[_Side]) -> str:
    """Returns the id of the rule by which the contract permits `anomaly` to one arm, if this rule does not hold for
    every arm of the group. Otherwise an empty text."""
    ruling = contract(side.settings, side.evidence.disturbances)[anomaly]
    rule = next((each for each in RULES if each.id == ruling.rule), None)
    return rule.id if rule and not all(rule.holds(other.settings) for other in group) else ""


def _why_open_for_some(anomaly: Anomaly, showing: list[_Side], silent: list[_Side]) -> str:
    """Returns why the clients of `silent` are not acquitted of an anomaly that those of `showing` show. An empty text
    if they are."""
    if len({side.library for side in showing}) > 1:
        return "several clients show it, and not every version"
    group = [*showing, *silent]
    if anomaly in OF_UNKNOWN_SENDERS and any(side.strangers for side in group):
        return "records that no attempt accounts for stand in a topic, and who sent them is not known"
    is_known = any(_own_rule(anomaly, loud, group) for loud in showing)
    if anomaly in OF_RETRIES and not is_known and _waits_differ(group):
        return (
            "the fault outlasted the lesser of request.timeout.ms and socket.timeout.ms, after which Java sends again"
        )
    pairs = [(loud, quiet) for loud in showing for quiet in silent]
    unlike = next(filter(None, (_why_unlike(anomaly, loud, quiet) for loud, quiet in pairs)), "")
    return unlike or next(filter(None, (_why_chance(anomaly, loud, silent, group) for loud in showing)), "")


def _waits_differ(group: Sequence[_Side]) -> bool:
    """Returns whether one client may have given up an answer that another one still waited for. librdkafka waits for
    socket.timeout.ms, and Java for the lesser of this and request.timeout.ms (see `load.java.settings`)."""
    settings = group[0].settings
    lesser_ms, greater_ms = sorted((settings.request_timeout_ms, settings.socket_timeout_ms))
    if len({side.library for side in group}) == 1 or lesser_ms == greater_ms:
        return False
    return any(
        injection.healed_at_us is None or injection.healed_at_us - injection.effect_at_us >= lesser_ms * 1000
        for injection in group[0].evidence.run.effective
    )


def _why_unlike(anomaly: Anomaly, loud: _Side, quiet: _Side) -> str:
    """Returns why `quiet`, which shows no case of `anomaly`, may have had no opportunity to. An empty text if it had
    the same as `loud`."""
    if anomaly is Anomaly.LOST and quiet.verdict.tally.get(UNPROVEN):
        return f"records of {quiet.name} may stand at unreadable offsets"
    if quiet.without_outcome > loud.without_outcome:
        return f"{quiet.name} has more records without an outcome, and these can show nothing"
    if more := next((each for each in _before(anomaly) if quiet.cases(each) > loud.cases(each)), None):
        return f"{quiet.name} shows more {more}, and such a record is no case of {anomaly}"
    if quiet.done_to_it != loud.done_to_it:
        return f"the cluster did not do the same to the topics of {loud.name} and {quiet.name}"
    if not loud.overtaken_ends <= quiet.overtaken_ends:
        return f"fewer ends of transactions of {quiet.name} came late and were overtaken"
    return ""


def _before(anomaly: Anomaly) -> list[Anomaly]:
    """Returns the anomalies that come before `anomaly` in the precedence: a record has one."""
    every = list(Anomaly)
    return every[: every.index(anomaly)]


def _comparable(loud: _Side, silent: Sequence[_Side]) -> list[int]:
    """Returns the cycles of faults in which each of `silent` was exposed at least as much as `loud`."""
    cycles = sorted({injection.cycle for injection in loud.evidence.run.effective})
    return [
        cycle
        for cycle in cycles
        if all(
            all(mine >= theirs for mine, theirs in zip(quiet.exposure_in(cycle), loud.exposure_in(cycle), strict=True))
            and quiet.exposure_in(cycle)[0] > 0
            for quiet in silent
        )
    ]


def _why_chance(anomaly: Anomaly, loud: _Side, silent: list[_Side], group: Sequence[_Side]) -> str:
    """Returns why the difference between `loud` and `silent` may have come by chance. An empty text if it did not."""
    seen_in = loud.cycles_with(anomaly)
    if not seen_in:
        return f"no cycle of faults is known in which {loud.name} showed it"
    comparable = _comparable(loud, silent)
    hits, trials = len(seen_in & set(comparable)), len(comparable)
    if not hits:
        names = enumeration([quiet.name for quiet in silent], "and")
        return f"{names} had less exposure than {loud.name} where {loud.name} showed it"
    is_scripted = loud.evidence.run.scenario.load.pacing == "scripted"
    if is_scripted and hits == trials and _own_rule(anomaly, loud, group):
        return ""
    if _chance(hits, trials) <= 1 - CONFIDENCE:
        return ""
    return (
        f"it was seen in {hits} of {trials} comparable cycles of faults, which chance can do: repeat the fault with "
        f"--cycles {2 * _fewest()} or more"
    )


def _chance(hits: int, trials: int) -> float:
    """Returns the probability that `hits` of `trials` with one client and none of `trials` with another come from the
    same cause, in either direction (Fisher's exact test)."""
    return min(1.0, 2 * comb(trials, hits) / comb(2 * trials, hits))


def _fewest() -> int:
    """Returns the least number of trials of which all must be hits, so that chance is excluded."""
    return next(trials for trials in range(1, 100) if _chance(trials, trials) <= 1 - CONFIDENCE)


def _only(anomaly: Anomaly, showing: list[_Side], silent: list[_Side]) -> str:
    clients, others = (enumeration([side.words for side in sides], "and") for sides in (showing, silent))
    loud = showing[0]
    comparable = _comparable(loud, silent)
    hits = len(loud.cycles_with(anomaly) & set(comparable))
    cycles = f"{hits} of {len(comparable)} comparable cycle{'' if len(comparable) == 1 else 's'} of faults"
    rule = next((_own_rule(anomaly, side, [*showing, *silent]) for side in showing), "")
    known = f"The contract knows this difference: {rule}" if rule else "No rule of the contract knows this difference"
    return (
        f"{anomaly} with {clients} ({_figures(showing, anomaly)}), and none with {others}, in {cycles}. "
        f"Only {clients}: the client. Where the profile leaves a setting out, each has its own default. {known}"
    )
