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
    """What the contract or the claim says of one anomaly, and by which rule.

    `because`: the kinds of observed disturbances that permit the anomaly. It is empty where the anomaly is forbidden,
    or permitted on a quiet day, too. `only_unplanned`: only unplanned disturbances permit the anomaly, so that a case
    of it is a doubt, not a pass.
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
    """One ruling for every anomaly. Pass only disturbances that concern the arm's topic (`disturbances_of_topic`).

    Where the topic was altered during the run, the weakest of its settings counts. If the change was unplanned, or has
    no proof, then what only the change permits is a doubt.
    """
    observed = list(disturbances)
    rulings = _rulings(settings, observed)
    as_planned = weakened(settings, [disturbance for disturbance in observed if disturbance.planned])
    _permit_as_altered(rulings, settings, as_planned, observed, doubtful=False)
    _permit_as_altered(rulings, settings, weakened(settings, observed), observed, doubtful=True)
    return rulings


def _permit_as_altered(
    rulings: dict[Anomaly, Ruling], settings: Settings, weaker: Settings, observed: list[Disturbance], doubtful: bool
) -> None:
    """Replaces rulings where the topic's weaker settings excuse more. `doubtful`: maybe the topic never had those."""
    if weaker == settings:
        return
    for anomaly, ruling in _rulings(weaker, observed).items():
        if ruling.ruling == "FORBIDDEN":
            continue
        altered = replace(
            ruling, only_unplanned=ruling.only_unplanned or doubtful, sentence=f"{ruling.sentence} {ALTERED}"
        )
        if _excuses_more(altered, rulings[anomaly]):
            rulings[anomaly] = altered


ALTERED = "The topic was altered during the run: the weakest of its settings counts."


def weakened(settings: Settings, disturbances: Iterable[Disturbance]) -> Settings:
    """`settings` with the weakest of all values that the topic had during the run.

    Ignores settings that no rule looks at. Another value of min.insync.replicas makes the controller forget its
    eligible leader replicas.
    """
    for altered in disturbances:
        if altered.kind != "topic_altered":
            continue
        if altered.setting == "min.insync.replicas":
            least = min(settings.min_insync_replicas, int(altered.value))
            settings = dataclasses.replace(settings, min_insync_replicas=least, elr=False)
        elif altered.setting == "unclean.leader.election.enable":
            unclean = settings.unclean_leader_election or altered.value == "true"
            settings = dataclasses.replace(settings, unclean_leader_election=unclean)
        elif altered.setting == "flush.messages":
            rarest = max(settings.flush_messages, int(altered.value))
            settings = dataclasses.replace(settings, flush_messages=rarest)
    return settings


def _rulings(settings: Settings, observed: list[Disturbance]) -> dict[Anomaly, Ruling]:
    rulings = {anomaly: _forbidden(anomaly) for anomaly in Anomaly}
    for rule in RULES:
        ruling = _permitted(rule, settings, observed) if rule.applies(settings) else None
        if ruling:
            previous = rulings[rule.anomaly]
            rulings[rule.anomaly] = ruling if _excuses_more(ruling, previous) else _add_reasons(previous, ruling)
    return rulings


def claim_tolerances(claim: Claim) -> dict[Anomaly, int]:
    """The anomalies that `claim` forbids beyond the contract, each with tolerance 0."""
    return dict.fromkeys(CLAIMS[claim].forbids, 0)


def guarantees(rulings: Mapping[Anomaly, Ruling]) -> dict[Claim, bool]:
    """Whether the rulings forbid all that each claim forbids. The claim `contract` forbids nothing, and is not listed.

    RESENT does not count: it is the application's doing, and no setting forbids it.
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


def _permitted(rule: ContractRule, settings: Settings, observed: list[Disturbance]) -> Ruling | None:
    """The ruling of `rule`, which applies to `settings`; None if a disturbance that the rule needs was not observed.

    The permission is planned only if, for each condition of the rule, a planned disturbance meets it.
    """
    excuses = [
        disturbance
        for disturbance in observed
        if disturbance.kind in rule.kinds and rule.far_enough(settings, disturbance)
    ]
    conditions = [[disturbance for disturbance in observed if disturbance.kind == kind] for kind in rule.also_required]
    if rule.kinds:
        conditions.append(excuses)
    if not all(conditions):
        return None
    planned = all(any(disturbance.planned for disturbance in condition) for condition in conditions)
    observed_kinds = {disturbance.kind for disturbance in excuses}
    return Ruling(
        anomaly=rule.anomaly,
        ruling="PERMITTED",
        rule=rule.id,
        sentence=rule.sentence,
        source=rule.source,
        because=tuple(kind for kind in rule.kinds if kind in observed_kinds),
        only_unplanned=not planned,
    )


def _add_reasons(ruling: Ruling, other: Ruling) -> Ruling:
    """`ruling`, extended by the disturbances for which `other` permits the same anomaly.

    Nothing is added if one of the two is planned and the other is not. If one of the two needs no disturbance, then
    the anomaly needs none: `because` is empty.
    """
    if other.only_unplanned != ruling.only_unplanned:
        return ruling
    if not ruling.because or not other.because:
        return replace(ruling, because=())
    return replace(ruling, because=tuple(dict.fromkeys(ruling.because + other.because)))


def _excuses_more(ruling: Ruling, previous: Ruling) -> bool:
    """Whether `ruling`, which permits, excuses more than `previous`.

    PERMITTED excuses more than FORBIDDEN, and a planned reason more than an unplanned one.
    """
    return previous.ruling == "FORBIDDEN" or (previous.only_unplanned and not ruling.only_unplanned)
