"""The contract: per anomaly forbidden or permitted, from an arm's settings and the disturbances that were observed.

Pure: no Kafka, no Spark, no Great Expectations. A claim may tighten the contract, never loosen it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from delivery_verifier.contract.rules import PROMISES, RULES, ContractRule
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.history import Disturbance, DisturbanceKind
from delivery_verifier.model.scenario import Claim


class Ruling(Struct, frozen=True, kw_only=True):
    """What holds for one anomaly, by which rule. `because`: the disturbance kinds seen that permit it.

    `only_unplanned`: every disturbance that permits it was unplanned, so that what it permits is a doubt, not a pass.
    """

    anomaly: Anomaly
    ruling: Literal["FORBIDDEN", "PERMITTED"]
    rule: str
    sentence: str
    source: str
    ruled_by: Literal["contract", "claim"] = "contract"
    because: tuple[DisturbanceKind, ...] = ()
    only_unplanned: bool = False

    @property
    def tolerance(self) -> int | None:
        """Cases that are tolerated: 0 where forbidden, None (any number) where permitted."""
        return 0 if self.ruling == "FORBIDDEN" else None


def contract(settings: Settings, disturbances: Iterable[Disturbance]) -> dict[Anomaly, Ruling]:
    """One ruling for every anomaly. Pass only disturbances that concern the arm's topic (`disturbances.concerning`).

    Where a topic was altered, the weakest of its settings counts. If that was not planned, or has no proof, what only
    it permits is a doubt.
    """
    seen = list(disturbances)
    rulings = _rulings(settings, seen)
    for altered in ([it for it in seen if it.planned], seen):
        weaker = weakened(settings, altered)
        if weaker == settings:
            continue
        for anomaly, ruling in _rulings(weaker, seen).items():
            doubtful = ruling.only_unplanned or altered is seen
            told = replace(ruling, only_unplanned=doubtful, sentence=f"{ruling.sentence} {ALTERED}")
            if ruling.ruling == "PERMITTED" and _stronger(told, rulings[anomaly]):
                rulings[anomaly] = told
    return rulings


ALTERED = "The topic was altered during the run: the weakest of its settings counts."


def weakened(settings: Settings, disturbances: Iterable[Disturbance]) -> Settings:
    """`settings` with, of everything that the topic was altered to, the weakest. A setting that no rule knows is no
    matter.

    Another min.insync.replicas makes the controller forget its eligible leader replicas.
    """
    for it in disturbances:
        if it.kind != "topic_altered":
            continue
        if it.setting == "min.insync.replicas":
            least = min(settings.min_insync_replicas, int(it.value))
            settings = dataclasses.replace(settings, min_insync_replicas=least, elr=False)
        elif it.setting == "unclean.leader.election.enable":
            unclean = settings.unclean_leader_election or it.value == "true"
            settings = dataclasses.replace(settings, unclean_leader_election=unclean)
        elif it.setting == "flush.messages":
            settings = dataclasses.replace(settings, flush_messages=max(settings.flush_messages, int(it.value)))
    return settings


def _rulings(settings: Settings, seen: list[Disturbance]) -> dict[Anomaly, Ruling]:
    rulings = {anomaly: _forbidden(anomaly) for anomaly in Anomaly}
    for rule in RULES:
        ruling = _permitted(rule, settings, seen) if rule.applies(settings) else None
        if ruling:
            old = rulings[rule.anomaly]
            rulings[rule.anomaly] = ruling if _stronger(ruling, old) else _together(old, ruling)
    return rulings


def claim_tolerances(claim: Claim) -> dict[Anomaly, int]:
    """The anomalies that `claim` forbids beyond the contract, each with tolerance 0."""
    return dict.fromkeys(CLAIMS[claim].forbids, 0)


def guarantees(rulings: Mapping[Anomaly, Ruling]) -> dict[Claim, bool]:
    """Which guarantees the rulings give of themselves, without being asked for more.

    RESENT is left aside: it is the application's doing, and no setting forbids it.
    """
    return {
        claim: all(rulings[anomaly].ruling == "FORBIDDEN" for anomaly in kind.forbids if anomaly is not Anomaly.RESENT)
        for claim, kind in CLAIMS.items()
        if kind.forbids
    }


def effective(settings: Settings, claim: Claim, disturbances: Iterable[Disturbance]) -> dict[Anomaly, Ruling]:
    """The contract, tightened by the claim: what the contract forbids stays forbidden."""
    rulings = contract(settings, disturbances)
    for anomaly in claim_tolerances(claim):
        if rulings[anomaly].ruling == "PERMITTED":
            rulings[anomaly] = replace(
                _forbidden(anomaly),
                ruled_by="claim",
                rule=f"claim.{claim}",
                sentence=f"The claim {claim} asks for more than these settings promise: {rulings[anomaly].sentence}",
                source=f"the claim of this arm, against {rulings[anomaly].rule}",
            )
    return rulings


def _forbidden(anomaly: Anomaly) -> Ruling:
    promise = PROMISES[anomaly]
    return Ruling(
        anomaly=anomaly, ruling="FORBIDDEN", rule=promise.id, sentence=promise.sentence, source=promise.source
    )


def _permitted(rule: ContractRule, settings: Settings, seen: list[Disturbance]) -> Ruling | None:
    """The ruling of a rule that applies, if what it asks for was seen; planned only if each of its parts was."""
    matching = [it for it in seen if it.kind in rule.kinds and rule.far_enough(settings, it)]
    along = [[it for it in seen if it.kind == kind] for kind in rule.also_required]
    if (rule.kinds and not matching) or not all(along):
        return None
    parts = [*([matching] if rule.kinds else []), *along]
    return Ruling(
        anomaly=rule.anomaly,
        ruling="PERMITTED",
        rule=rule.id,
        sentence=rule.sentence,
        source=rule.source,
        because=tuple(kind for kind in rule.kinds if any(found.kind == kind for found in matching)),
        only_unplanned=not all(any(found.planned for found in part) for part in parts),
    )


def _together(first: Ruling, other: Ruling) -> Ruling:
    """`first`, with what `other` is `because` of as well, if that is no weaker; a quiet day needs no reason."""
    if other.only_unplanned != first.only_unplanned:
        return first
    every = tuple(dict.fromkeys(first.because + other.because)) if first.because and other.because else ()
    return replace(first, because=every)


def _stronger(new: Ruling, old: Ruling) -> bool:
    """Whether `new` excuses more than `old`: PERMITTED over FORBIDDEN, and a planned reason over an unplanned one."""
    return old.ruling == "FORBIDDEN" or (old.only_unplanned and not new.only_unplanned)
