"""The result of a cluster check, for a person and as data: what was found, what is missing, and what it means."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from delivery_verifier.cluster.check import facts, rights
from delivery_verifier.cluster.check.cluster_check import Checked
from delivery_verifier.cluster.check.rights import Created
from delivery_verifier.cluster.external.commands import Commands
from delivery_verifier.contract.settings import ELR_SINCE
from delivery_verifier.model.external_cluster import REBALANCE
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.planning import cluster_needs
from delivery_verifier.planning.cluster_needs import MOST_BYTES, MOST_RATE, Needs

MIN_ISR = "transaction.state.log.min.isr"
_REFUSED = "change the settings of the topic, or the cluster's policy"
FIT, LACKING, UNKNOWN = 0, 69, 70
"""Exit codes: the cluster has all that the run needs; it lacks something; something that the run needs is not known."""


class Line(Struct, frozen=True):
    """One line of the result. `mark`: ok, missing, refused, not known, or an empty text for a fact. `remedy`: what to
    do about it, as a command where there is one."""

    topic: str
    mark: str
    text: str
    remedy: str = ""


class ClusterPlan(Struct, frozen=True, kw_only=True):
    """What a cluster check found. `exit_code`: 0 if the cluster has all that the run needs."""

    cluster_id: str
    principal: str
    fit: bool
    exit_code: int
    took_s: float
    features: dict[str, int]
    assumed: dict[str, str]
    lines: tuple[Line, ...]


def judge(scenario: Scenario, checked: Checked, commands: Commands | None = None) -> ClusterPlan:
    """Returns what `checked` means for a run of `scenario`. `commands` are the operator's, if the run has any."""
    needed = cluster_needs.needs(scenario, commands)
    lines = [
        *_brokers(checked, needed),
        *_features(checked),
        *_rights(checked, needed),
        *_topics(scenario, checked),
        *of_run(needed),
    ]
    marks = {line.mark for line in lines}
    lacks, unknown = bool(marks & {"missing", "refused"}), "not known" in marks
    code = LACKING if lacks else UNKNOWN if unknown else FIT
    return ClusterPlan(
        cluster_id=checked.cluster_id,
        principal=checked.principal,
        fit=code == FIT,
        exit_code=code,
        took_s=round(checked.took_s, 2),
        features=dict(_common_features(checked)),
        assumed=assumptions_from(checked),
        lines=tuple(lines),
    )


def observed(scenario: Scenario, checked: Checked) -> Scenario:
    """Returns `scenario` on a cluster as `checked` found it. What is not known has the weaker value."""
    settings = {**scenario.cluster.broker_settings, MIN_ISR: _min_isr(checked) or 1}
    cluster = msgspec.structs.replace(scenario.cluster, elr=_keeps_elr(checked), broker_settings=settings)
    return msgspec.structs.replace(scenario, cluster=cluster)


def text(plan: ClusterPlan) -> str:
    """Returns the plan as lines for a person, and its outcome as the last line."""
    mapped = ", unless its ssl.principal.mapping.rules say otherwise" if "=" in plan.principal else ""
    lines = [f"cluster  {plan.cluster_id}, as {plan.principal}{mapped}"]
    for line in plan.lines:
        mark = f"[{line.mark}] " if line.mark else ""
        lines.append(f"{line.topic:<9}{mark}{line.text}")
        if line.remedy:
            lines.append(f"           remedy: {line.remedy}")
    outcome = {
        FIT: "the cluster has all that this run needs",
        LACKING: "the cluster lacks what this run needs",
        UNKNOWN: "it is not known whether the cluster has all that this run needs",
    }[plan.exit_code]
    lines.append(f"outcome  {outcome} (checked in {plan.took_s:g} s; nothing was created, written or removed)")
    return "\n".join(lines) + "\n"


def assumptions_from(checked: Checked) -> dict[str, str]:
    """Returns what the contract may assume of the cluster, each with the reason. What is not known counts as the weaker
    value."""
    features = _common_features(checked)
    transactions, min_isr = features.get(facts.TRANSACTIONS, 0), _min_isr(checked)
    late = "" if transactions >= 2 else ": a late end of a transaction may end the next one"
    if _keeps_elr(checked):
        elr = f"kept ({facts.ELR} is {features[facts.ELR]})"
    elif checked.unreached or not all(each.knows_elr for each in checked.software.values()):
        elr = "none (not known: not every broker says which there are)"
    elif _common_features(checked).get(facts.ELR, 0) > 0:
        elr = f"none (not known: {facts.ELR} is on, and a broker's release is older, or not known here)"
    else:
        elr = f"none ({facts.ELR} is off)"
    return {
        "eligible leader replicas": elr,
        "ends of transactions": f"{facts.TRANSACTIONS} is {transactions}{late}",
        MIN_ISR: "1 (not known)" if min_isr is None else str(min_isr),
    }


def _keeps_elr(checked: Checked) -> bool:
    """Returns whether every broker says that the cluster keeps eligible leader replicas, and which they are, and has a
    release of which the contract knows that."""
    since = [name for name in facts.RELEASES.values() if tuple(map(int, name.split("."))) >= ELR_SINCE]
    says = all(each.knows_elr and each.release in since for each in checked.software.values())
    return says and not checked.unreached and _common_features(checked).get(facts.ELR, 0) > 0


def _min_isr(checked: Checked) -> int | None:
    value = (checked.settings or {}).get(MIN_ISR, "")
    return int(value) if value.isdecimal() else None


def _common_features(checked: Checked) -> dict[str, int]:
    """Returns the features that all brokers that answered report, each with its lowest level."""
    every = [software.features for software in checked.software.values()]
    shared = set.intersection(*(set(each) for each in every)) if every else set()
    return {name: min(each[name] for each in every) for name in sorted(shared)}


def _brokers(checked: Checked, needed: Needs) -> list[Line]:
    unreached = {each.number: each for each in checked.unreached}
    lines = []
    for broker in checked.brokers:
        where = f"broker {broker.number} at {broker.address}, rack {broker.rack or 'none'}"
        if broker.number in unreached:
            cause = unreached[broker.number].cause
            lines.append(Line("broker", "missing", f"{where}: cannot be reached; {cause}"))
            continue
        software = checked.software[broker.number]
        about = f"Kafka {software.release}, round trip {1000 * software.round_trip_s:.1f} ms"
        lines.append(Line("broker", "ok", f"{where}: {about}"))
    lines += [Line("broker", "", f"{each}; no known broker is there") for each in checked.beside]
    if len(checked.brokers) < needed.replicas:
        lines.append(
            Line(
                "broker",
                "missing",
                f"{len(checked.brokers)} brokers, and each partition has {needed.replicas} replicas",
                f"--replication-factor {len(checked.brokers)}",
            )
        )
    return lines


def _features(checked: Checked) -> list[Line]:
    levels = ", ".join(f"{name} {level}" for name, level in _common_features(checked).items())
    lines = [Line("features", "", levels or "none reported, so the weaker value counts for each")]
    lines += [Line("assumed", "", f"{what}: {value}") for what, value in assumptions_from(checked).items()]
    if checked.settings is None:
        may_not = any(answer.right == rights.SEE_SETTINGS and answer.standing == "missing" for answer in checked.rights)
        why = f"{rights.SEE_SETTINGS} is missing" if may_not else "the cluster did not say"
        lines.append(Line("settings", "", f"those of the brokers are not known: {why}"))
    else:
        lines.append(Line("settings", "", ", ".join(f"{name}={value}" for name, value in checked.settings.items())))
        if checked.settings.get(REBALANCE) == "true":
            text = f"{REBALANCE}=true: leaders may move by themselves, which a run counts as unplanned"
            lines.append(Line("settings", "", text))
    return lines


def _rights(checked: Checked, needed: Needs) -> list[Line]:
    lines = []
    for answer in checked.rights:
        wish = answer.right in needed.wishes
        if answer.standing == "granted":
            lines.append(Line("right", "ok", f"{answer.right}"))
            continue
        grant = answer.right.command(checked.servers, checked.principal)
        said = f"{answer.right}" + (f": {answer.why}" if answer.why else "")
        if wish:
            lines.append(Line("right", "", f"{said}: {answer.standing}, and not needed", grant))
        else:
            lines.append(Line("right", answer.standing, said, grant))
    return lines


def _topics(scenario: Scenario, checked: Checked) -> list[Line]:
    """Says what the cluster makes of the topics of the run: errors, policies, and settings that it would change."""
    create = [answer for answer in checked.rights if answer.right == rights.CREATE]
    may = any(answer.standing == "granted" for answer in create)
    samples = cluster_needs.sample_topics(scenario, [broker.number for broker in checked.brokers])
    lines = list[Line]()
    for name, sample in samples.items():
        created = checked.created.get(name)
        if created is not None:
            lines.append(_topic(name, sample.settings, created))
        elif may:
            lines.append(Line("policy", "not known", f"the cluster did not say whether it takes topic {name}"))
    refused = [answer.why for answer in create if answer.refused]
    if refused and all(line.mark != "refused" for line in lines):
        lines.append(
            Line("policy", "refused", f"the cluster would refuse a topic of this run ({refused[0]})", _REFUSED)
        )
    return lines


def _topic(name: str, asked: Mapping[str, str], created: Created) -> Line:
    if (what := rights.REFUSED_TOPIC.get(created.code)) is not None:
        said = f"the cluster would refuse topic {name} ({what}): {created.why or created.code}"
        return Line("policy", "refused", said, _REFUSED)
    if created.code:
        return Line("policy", "not known", f"whether the cluster takes topic {name}: error {created.code}")
    return _settings_of_topic(name, asked, created.settings or {})


def _settings_of_topic(name: str, asked: Mapping[str, str], offered: Mapping[str, str]) -> Line:
    """Compares the settings that a topic asks for with those that the cluster says it would get."""
    if changed := [
        f"{setting} would be {offered[setting]}, not {value}"
        for setting, value in asked.items()
        if setting in offered and offered[setting] != value
    ]:
        remedy = "the run's verdict needs these settings; ask for an exception from the cluster's policy"
        return Line("policy", "refused", f"the cluster would change topic {name}: {'; '.join(changed)}", remedy)
    if silent := sorted(asked.keys() - offered.keys()):
        said = f"the cluster does not say what topic {name} would get for {', '.join(silent)}"
        return Line("policy", "not known", said)
    return Line("policy", "ok", f"topic {name} would get its {len(asked)} settings unchanged")


def of_run(needed: Needs) -> list[Line]:
    """Says what the run would create, send and remove, and what of it is refused on every cluster that somebody else
    runs."""
    rate = "as many records per second as it can" if needed.rate is None else f"{needed.rate:,.0f} records/s and arm"
    lines = [
        Line(
            "creates",
            "",
            f"{len(needed.topics)} topics: {', '.join(needed.topics)}; and an empty one, whose name says "
            "which run this is. A run puts random characters into all these names",
        ),
        Line(
            "sends",
            "",
            f"at least {needed.records:,} records, {rate}; {needed.bytes_sent / 1e6:,.1f} MB in all replicas",
        ),
        Line("removes", "", "these topics and the groups of their readers, at the end of the run; nothing else"),
    ]
    if needed.rate is None or needed.rate > MOST_RATE:
        said = f"more than {MOST_RATE:,} records/s are not sent to a cluster that somebody else runs"
        lines.append(Line("limit", "refused", said, f"--rate {MOST_RATE}"))
    if needed.bytes_sent > MOST_BYTES:
        said = f"more than {MOST_BYTES / 1e6:,.0f} MB are not sent to a cluster that somebody else runs"
        lines.append(Line("limit", "refused", said, "lower --records or --payload-bytes"))
    if needed.ordered:
        said = f"{', '.join(needed.ordered)}, by the operator's commands {needed.commands}, of brokers of the run"
        lines.append(Line("orders", "", said))
    lines += _impossible(needed)
    return lines


def _impossible(needed: Needs) -> list[Line]:
    if not needed.impossible:
        return []
    remedy, lack = "--fault none or observe, or a fault of producers or applications", ", ".join(needed.impossible)
    if needed.commands:
        return [Line("fault", "refused", f"the commands {needed.commands} have none for {lack}", remedy)]
    said = f"{lack}: only a cluster of the verifier's own can be broken so"
    return [Line("fault", "refused", said, f"{remedy}; or commands of your own: --commands NAME")]
