"""The rulings of the contract: which anomalies are forbidden or permitted, given settings and observed disturbances.

The rulings depend on these two inputs alone, and are computed without Kafka, Spark or Great Expectations. A claim may
forbid what the contract permits. It never permits what the contract forbids. A disturbance is planned if an injection
that took effect explains it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
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
    """The ruling of the contract or the claim on one anomaly: forbidden or permitted, and by which rule.

    * `rule`: the id of the rule. `sentence` explains the rule to people, and `source` says where it is documented.
    * `ruled_by`: whether the contract or the claim has made the ruling.
    * `because`: the kinds of observed disturbances that permit the anomaly. It is empty if the anomaly is forbidden, or
      permitted without any disturbance.
    * `only_unplanned`: whether only unplanned disturbances permit the anomaly. A record that shows the anomaly is then
      not a violation, but raises a doubt.
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
        """How many records may show the anomaly: 0 if the anomaly is forbidden, None (any number) if it is
        permitted."""
        return 0 if self.ruling == "FORBIDDEN" else None


def contract(settings: Settings, disturbances: Iterable[Disturbance]) -> dict[Anomaly, Ruling]:
    """Returns the contract's ruling on every anomaly.

    `disturbances` must be the disturbances of the arm (see `disturbances_of_arm`). If a topic setting was altered
    during the run, it had several values. For each disturbance, the contract uses the weakest value that the setting
    had before this disturbance (see `alterations`). After an unplanned alteration, nobody knows whether the topic got
    the new value. If an anomaly is permitted only with such a value, the ruling has `only_unplanned`, and the anomaly
    raises a doubt.
    """
    observed = list(disturbances)
    rulings = _rulings(settings, observed)
    for weaker, later in alterations(settings, observed, planned=True):
        _permit_as_altered(rulings, weaker, later, doubtful=False)
    for weaker, later in alterations(settings, observed):
        _permit_as_altered(rulings, weaker, later, doubtful=True)
    return rulings


def _permit_as_altered(
    rulings: dict[Anomaly, Ruling], weaker: Settings, later: list[Disturbance], doubtful: bool
) -> None:
    """Updates `rulings` with the rulings for `weaker`, the settings after an alteration of the topic.

    If the ruling for `weaker` on an anomaly explains more than the ruling in `rulings`, it replaces the ruling in
    `rulings`. `later`: the disturbances at which the topic may have had the settings `weaker`. `doubtful`: whether the
    topic may never have had these settings.
    """
    for anomaly, ruling in _rulings(weaker, later).items():
        if ruling.ruling == "FORBIDDEN":
            continue
        altered = replace(
            ruling, only_unplanned=ruling.only_unplanned or doubtful, sentence=f"{ruling.sentence} {ALTERED}"
        )
        if _permits_more(altered, rulings[anomaly]):
            rulings[anomaly] = altered


ALTERED = "The topic was altered during the run: the weakest setting that it had by then counts."


def alterations(
    settings: Settings, observed: list[Disturbance], *, planned: bool = False
) -> Iterator[tuple[Settings, list[Disturbance]]]:
    """Yields pairs: weaker settings, and the disturbances to which they apply. Because of alterations, the topic may
    have had the weaker settings at these disturbances.

    `settings` are the settings at the start. An alteration counts for every disturbance from
    `Disturbance.weakens_since_us` on. If `planned` is true, only planned alterations count.
    """
    altered = [each for each in observed if each.kind == "topic_altered" and (each.planned or not planned)]
    for since_us in sorted({each.weakens_since_us for each in altered}):
        weaker = weakened(settings, [each for each in altered if each.weakens_since_us <= since_us])
        if weaker != settings:
            yield weaker, [each for each in observed if each.at_us >= since_us]


def weakened(settings: Settings, disturbances: Iterable[Disturbance]) -> Settings:
    """Returns `settings` with the weakest of all values that each topic setting had during the run.

    Only disturbances of the kind `topic_altered` count. The weakest value is the one that permits most, e.g. the least
    min.insync.replicas. A change of a setting that no rule uses is ignored. A change of min.insync.replicas also
    removes the eligible leader replicas (`elr`), because the controller then forgets them.
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
    """Returns the ruling on every anomaly, as if the topic was never altered."""
    rulings = {anomaly: _forbidden(anomaly) for anomaly in Anomaly}
    for rule in RULES:
        ruling = _permitted(rule, settings, observed) if rule.holds(settings) else None
        if ruling:
            previous = rulings[rule.anomaly]
            rulings[rule.anomaly] = ruling if _permits_more(ruling, previous) else _add_reasons(previous, ruling)
    return rulings


def claim_tolerances(claim: Claim) -> dict[Anomaly, int]:
    """Maps each anomaly that `claim` forbids to the tolerance 0. `claim` forbids these anomalies even if the contract
    permits them.

    The tolerance is the number of records that may show the anomaly.
    """
    return dict.fromkeys(CLAIMS[claim].forbids, 0)


def guarantees(rulings: Mapping[Anomaly, Ruling]) -> dict[Claim, bool]:
    """Maps each claim except `contract` to whether `rulings` forbid every anomaly that the claim forbids.

    If the value is True, the settings guarantee what the claim demands. The claim `contract` is left out because it
    forbids no anomaly. RESENT is ignored, because the application causes RESENT and no setting forbids it.
    """
    return {
        claim: all(rulings[anomaly].ruling == "FORBIDDEN" for anomaly in kind.forbids if anomaly is not Anomaly.RESENT)
        for claim, kind in CLAIMS.items()
        if kind.forbids
    }


def effective(settings: Settings, claim: Claim, disturbances: Iterable[Disturbance]) -> dict[Anomaly, Ruling]:
    """Returns the ruling of contract and claim together on every anomaly.

    An anomaly is forbidden if the contract or the claim forbids the anomaly.
    """
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


def refuses_late(settings: Settings, disturbances: Iterable[Disturbance]) -> bool:
    """Returns whether brokers must refuse a record that arrives after a later record of the same producer (see LATE).

    True if the producers are idempotent and none of them was killed. A producer that starts again gets a new producer
    id, so brokers may accept a late request with the old id.
    """
    killed = any(disturbance.kind == "client_crash" for disturbance in disturbances)
    return settings.enable_idempotence and not killed


def _forbidden(anomaly: Anomaly) -> Ruling:
    """Returns the ruling that forbids `anomaly`. The promise of the anomaly gives the rule, the sentence and the
    source."""
    promise = PROMISES[anomaly]
    return Ruling(
        anomaly=anomaly, ruling="FORBIDDEN", rule=promise.id, sentence=promise.sentence, source=promise.source
    )


def _permitted(rule: ContractRule, settings: Settings, observed: list[Disturbance]) -> Ruling | None:
    """Returns the ruling by `rule`, or None if a disturbance that the rule needs was not observed.

    The rule must apply to `settings`. The field `only_unplanned` is true if one of the rule's conditions is met only by
    unplanned disturbances.
    """
    explained_by = [
        disturbance
        for disturbance in observed
        if disturbance.kind in rule.kinds and rule.far_enough(settings, disturbance)
    ]
    conditions = [[disturbance for disturbance in observed if disturbance.kind == kind] for kind in rule.also_required]
    if rule.kinds:
        conditions.append(explained_by)
    if not all(conditions):
        return None
    planned = all(any(disturbance.planned for disturbance in condition) for condition in conditions)
    observed_kinds = {disturbance.kind for disturbance in explained_by}
    return Ruling(
        anomaly=rule.anomaly,
        ruling="PERMITTED",
        rule=rule.id,
        sentence=rule.sentence,
        source=rule.source_for(settings.client),
        because=tuple(kind for kind in rule.kinds if kind in observed_kinds),
        only_unplanned=not planned,
    )


def _add_reasons(ruling: Ruling, other: Ruling) -> Ruling:
    """Returns `ruling` with the reasons (`because`) of `other` added. Both rulings permit the same anomaly.

    * If only one of the two rulings has `only_unplanned`, returns `ruling` unchanged.
    * If one of the two rulings needs no disturbance, the anomaly is permitted without any. `because` is then empty.
    """
    if other.only_unplanned != ruling.only_unplanned:
        return ruling
    if not ruling.because or not other.because:
        return replace(ruling, because=())
    return replace(ruling, because=tuple(dict.fromkeys(ruling.because + other.because)))


def _permits_more(ruling: Ruling, previous: Ruling) -> bool:
    """Returns whether `ruling`, which permits an anomaly, explains more than the ruling `previous` on the same anomaly.

    A ruling that permits explains more than a ruling that forbids. If both rulings permit, one without `only_unplanned`
    explains more than one with it.
    """
    return previous.ruling == "FORBIDDEN" or (previous.only_unplanned and not ruling.only_unplanned)
