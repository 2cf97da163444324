"""Tests of the contract at its edges: the least and greatest values that settings may have, and the first values from
which a rule applies."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, get_args

import pytest
from msgspec import structs

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract import clients
from delivery_verifier.contract.alternatives import ALTERNATIVES, _fault_classes, alternatives, lines
from delivery_verifier.contract.disturbances import disturbances
from delivery_verifier.contract.guarantees import FAULT_CLASSES, matrix
from delivery_verifier.contract.observer import SIGTERM_EXITS, in_window
from delivery_verifier.contract.permissions import permitting
from delivery_verifier.contract.rules import RULES, ContractRule
from delivery_verifier.contract.rulings import (
    _add_reasons,
    claim_tolerances,
    contract,
    effective,
    guarantees,
    refuses_late,
)
from delivery_verifier.contract.settings import ELR_SINCE, Acks, ContradictorySettings, Settings, _has_elr
from delivery_verifier.contract.strength import at_least_as_strong
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.data import Setting
from delivery_verifier.model.history import Disturbance, DisturbanceKind, Injection, Observation
from delivery_verifier.model.scenario import Client, Profile

PLAIN = Settings.of_profile(PROFILES["acks_all"])
SAFE = Settings.of_profile(PROFILES["safe"])
CLASSES = {fault_class.name: fault_class for fault_class in FAULT_CLASSES}


def loss_of_power(replicas: int) -> Disturbance:
    return Disturbance(kind="isr_power_loss", at_us=1, planned=True, replicas=replicas)


def seen(kind: DisturbanceKind, planned: bool = True, **more: Any) -> Disturbance:
    return Disturbance(kind=kind, at_us=1, planned=planned, **more)


def permits(settings: Settings, anomaly: Anomaly, *observed: Disturbance) -> bool:
    return contract(settings, observed)[anomaly].ruling == "PERMITTED"


@pytest.mark.parametrize("least", [1, 2, 3])
def test_a_loss_of_power_of_exactly_min_insync_replicas_loses_and_of_one_fewer_does_not(least: int) -> None:
    settings = replace(SAFE, min_insync_replicas=least)
    assert permits(settings, Anomaly.LOST, loss_of_power(least))
    if least > 1:  # with min.insync.replicas=1 a rule of its own permits it
        assert not permits(settings, Anomaly.LOST, loss_of_power(least - 1))


def test_two_in_flight_are_enough_for_another_order() -> None:
    split = replace(PLAIN, client="java", retries=0)
    for settings in (PLAIN, split):
        assert permits(replace(settings, max_in_flight=2), Anomaly.REORDERED)
        assert not permits(replace(settings, max_in_flight=1), Anomaly.REORDERED)


def test_an_application_of_ones_own_is_weaker_in_order_than_one_that_commits_first() -> None:
    own, early = replace(PLAIN, discipline="own"), replace(PLAIN, discipline="commit_first")
    assert at_least_as_strong(Anomaly.OVERTAKEN, early, own)
    assert not at_least_as_strong(Anomaly.OVERTAKEN, own, early), "nobody checks it"


@pytest.mark.parametrize("field", ["retries", "max_in_flight"])
def test_two_retries_or_three_in_flight_are_as_strong_as_one_fewer(field: str) -> None:
    fewer, more = (replace(PLAIN, **{field: number}) for number in {"retries": (1, 2), "max_in_flight": (2, 3)}[field])
    for stronger, weaker in ((fewer, more), (more, fewer)):
        assert at_least_as_strong(Anomaly.DUPLICATED, stronger, weaker)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_that_needs_another_acks_than_all_says_that_it_cannot_apply_to_transactions(rule: ContractRule) -> None:
    booleans = (False, True)
    values: dict[str, tuple[Any, ...]] = {
        "enable_idempotence": booleans,
        "retries": (0, 1),
        "max_in_flight": (1, 2),
        "min_insync_replicas": (1, 2),
        "unclean_leader_election": booleans,
        "elr": booleans,
        "flush_messages": (1, 2),
        "client": get_args(Client),
        "transactional_id": ("", "t"),
        "discipline": (None, "at_handover", "commit_first", "transform_transactional", "database_together", "own"),
        "auto_offset_reset": ("earliest", "latest"),
        "isolation_level": ("read_uncommitted", "read_committed"),
    }
    combinations = (dict(zip(values, combination)) for combination in itertools.product(*values.values()))
    of_all = any(rule.applies(replace(PLAIN, **combination)) for combination in combinations)
    assert rule.transactional == of_all
    assert get_args(Acks)[-1] == PLAIN.acks == "all"


def test_each_class_of_faults_has_its_kinds_as_planned_disturbances() -> None:
    for name, replicas in {"crash": 0, "none": 0, "power of one": 0, "power of last": 1, "power of all": 3}.items():
        assert CLASSES[name].disturbances == [
            Disturbance(kind=kind, at_us=0, planned=True, replicas=replicas) for kind in CLASSES[name].kinds
        ]
    assert CLASSES["power of all"].replicas == PLAIN.replication_factor


def test_the_power_of_all_three_is_lost_even_with_three_in_sync() -> None:
    rows = {row.fault_class: row for row in matrix(replace(SAFE, min_insync_replicas=3))}
    assert rows["power of all"].broken_by[0] == "lost.power_of_all" and not rows["power of last"].broken_by


RANGES = {
    "retries": (0, 2147483647),
    "max.in.flight.requests.per.connection": (1, 1_000_000),
    "delivery.timeout.ms": (1, 2147483647),
    "request.timeout.ms": (1, 900_000),
    "socket.timeout.ms": (10, 300_000),
    "linger.ms": (0, 900_000),
    "min.insync.replicas": (1, 32767),
    "flush.messages": (1, 9223372036854775807),
}
"""The ranges of librdkafka's CONFIGURATION.md and of Kafka's topic configurations; delivery.timeout.ms may be 0."""
FIELDS = {"max.in.flight.requests.per.connection": "max_in_flight"}


def changed(name: str, value: Setting, base: str = "acks_all") -> Profile:
    """A profile with one other value. linger.ms is less than any delivery.timeout.ms unless it is changed itself."""
    producer = {**PROFILES[base].producer, "linger.ms": 0, "delivery.timeout.ms": 2147483647}
    if base == "transactional":
        producer["delivery.timeout.ms"] = 900
    topic = dict(PROFILES[base].topic)
    (topic if name in topic else producer)[name] = value
    return Profile(name="p", summary="", producer=producer, topic=topic)


@pytest.mark.parametrize("name", RANGES)
def test_the_least_and_the_greatest_value_are_accepted_and_those_beyond_are_not(name: str) -> None:
    least, greatest = RANGES[name]
    for value in (least, greatest):
        settings = Settings.of_profile(changed(name, value))
        assert getattr(settings, FIELDS.get(name, name.replace(".", "_")), value) == value
    for value in (least - 1 if name != "delivery.timeout.ms" else -1, greatest + 1):
        with pytest.raises(ContradictorySettings, match="outside allowed range"):
            Settings.of_profile(changed(name, value))


def test_a_timeout_of_zero_is_no_limit_and_any_other_must_be_longer_than_the_linger() -> None:
    assert Settings.of_profile(changed("delivery.timeout.ms", 0)).delivery_timeout_ms == 0
    profile = changed("delivery.timeout.ms", 7)
    assert Settings.of_profile(Profile("p", "", profile.producer | {"linger.ms": 6}, profile.topic))
    with pytest.raises(ContradictorySettings, match=r"greater than `linger\.ms`"):
        Settings.of_profile(Profile("p", "", profile.producer | {"linger.ms": 7}, profile.topic))
    zero = changed("delivery.timeout.ms", 0)
    assert Settings.of_profile(Profile("p", "", zero.producer | {"linger.ms": 900_000}, zero.topic))


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("transaction.timeout.ms", 1000, 999),
        ("transaction.timeout.ms", 900_000, 900_001),
        ("delivery.timeout.ms", 60_000, 60_001),
        ("socket.timeout.ms", 60_100, 60_101),
        ("max.in.flight.requests.per.connection", 5, 6),
        ("retries", 1, 0),
    ],
)
def test_transactions_and_idempotence_have_narrower_ranges(name: str, accepted: int, refused: int) -> None:
    def with_value(value: int) -> Profile:
        profile = changed(name, value, "transactional")
        producer = {"transaction.timeout.ms": 60_000, **profile.producer}
        producer |= {"transaction.timeout.ms": 60_000} if name != "transaction.timeout.ms" else {}
        producer |= {"socket.timeout.ms": 1000} if name != "socket.timeout.ms" else {}
        return Profile(name="p", summary="", producer=producer, topic=profile.topic)

    assert Settings.of_profile(with_value(accepted)).transactional_id
    with pytest.raises(ContradictorySettings):
        Settings.of_profile(with_value(refused))


@pytest.mark.parametrize("name", ["retention.ms", "retention.bytes"])
def test_topics_whose_records_never_expire_are_accepted_however_it_is_written(name: str) -> None:
    for value in (-1, "-1"):
        assert Settings.of_profile(changed_topic(name, value)) == PLAIN
    for value in (0, 1, -2):
        with pytest.raises(ContradictorySettings, match="expire"):
            Settings.of_profile(changed_topic(name, value))


def changed_topic(name: str, value: Setting) -> Profile:
    base = PROFILES["acks_all"]
    return Profile(name="p", summary="", producer=base.producer, topic=base.topic | {name: value})


def test_a_gapless_guarantee_needs_idempotence_and_is_off_unless_stated() -> None:
    safe, plain = PROFILES["safe"], PROFILES["acks_all"]
    gapless: dict[str, Setting] = {"enable.gapless.guarantee": True}
    assert Settings.of_profile(Profile("p", "", safe.producer | gapless, safe.topic)).enable_idempotence
    off: dict[str, Setting] = {"enable.gapless.guarantee": "false"}
    assert not Settings.of_profile(Profile("p", "", plain.producer | off, plain.topic)).enable_idempotence


def test_an_ordinary_run_has_three_replicas_eligible_leaders_the_raw_view_and_librdkafka() -> None:
    assert (PLAIN.replication_factor, PLAIN.elr, PLAIN.client) == (3, True, "librdkafka")
    assert PLAIN.isolation_level == "read_uncommitted"


@pytest.mark.parametrize(
    ("version", "has"), [("4.1.0", True), ("4.0.9", False), ("5.0.0", True), ("3.9.1", False), ("4.10", True)]
)
def test_eligible_leaders_are_kept_since_kafka_4_1(version: str, has: bool) -> None:
    assert _has_elr(version) is has
    assert ELR_SINCE == (4, 1)


def test_a_permission_names_the_disturbances_it_needs_and_no_others() -> None:
    weak = replace(PLAIN, acks="1")
    change, other = seen("leader_change"), seen("isr_shrink")
    assert permitting(weak, [other, change, other])[Anomaly.LOST] == [change]
    assert Anomaly.LOST not in permitting(weak, [other]) and Anomaly.LOST not in permitting(weak, [])
    assert permitting(PLAIN, [])[Anomaly.DUPLICATED] is None, "a retry needs no disturbance"
    assert permitting(replace(PLAIN, acks="0"), [change])[Anomaly.LOST] is None


def test_a_permission_needs_all_that_its_rule_needs() -> None:
    election, request = seen("unclean_election"), seen("unclean_request")
    assert Anomaly.LOST not in permitting(SAFE, [election]) and Anomaly.LOST not in permitting(SAFE, [request])
    assert permitting(SAFE, [request, election])[Anomaly.LOST] == [election]
    assert permitting(SAFE, [loss_of_power(1), loss_of_power(2)])[Anomaly.LOST] == [loss_of_power(2)]


def test_an_altered_topic_permits_what_its_weakest_settings_permit() -> None:
    loss, altered = loss_of_power(1), seen("topic_altered", setting="min.insync.replicas", value="1")
    assert Anomaly.LOST not in permitting(SAFE, [loss])
    assert permitting(SAFE, [loss, altered])[Anomaly.LOST] == [loss]
    assert permitting(SAFE, [loss, seen("topic_altered", setting="min.insync.replicas", value="2")])[Anomaly.LOST] == [
        loss
    ], "the controller forgets the eligible leaders"


def test_settings_guarantee_what_no_ruling_permits_and_resends_are_no_matter_of_settings() -> None:
    assert guarantees(contract(SAFE, [])) == dict.fromkeys(
        ("at_least_once", "at_most_once", "exactly_once", "ordered"), True
    )
    weak = guarantees(contract(replace(PLAIN, acks="1", retries=0), [seen("leader_change")]))
    assert not weak["at_least_once"] and not weak["exactly_once"]


@pytest.mark.parametrize(
    ("settings", "observed", "refused"),
    [
        (SAFE, [], True),
        (SAFE, [seen("leader_change")], True),
        (SAFE, [seen("leader_change"), seen("client_crash")], False),
        (PLAIN, [], False),
        (PLAIN, [seen("client_crash")], False),
    ],
)
def test_brokers_refuse_what_is_late_of_an_idempotent_producer_that_lives(
    settings: Settings, observed: list[Disturbance], refused: bool
) -> None:
    assert refuses_late(settings, observed) is refused


def test_a_claim_forbids_what_the_contract_permits_and_says_so() -> None:
    weak = replace(PLAIN, acks="0")
    ruling = effective(weak, "at_least_once", [])[Anomaly.LOST]
    assert (ruling.ruling, ruling.ruled_by, ruling.rule) == ("FORBIDDEN", "claim", "claim.at_least_once")
    assert (ruling.tolerance, ruling.because, ruling.only_unplanned) == (0, (), False)
    assert effective(weak, "at_most_once", [])[Anomaly.LOST].ruled_by == "contract"
    assert contract(weak, [])[Anomaly.LOST].tolerance is None


def test_of_two_permissions_the_planned_counts_and_reasons_of_the_same_kind_are_added() -> None:
    weak = replace(PLAIN, acks="1", flush_messages=9, min_insync_replicas=1)
    change, loss = seen("leader_change"), loss_of_power(1)
    assert contract(weak, [change, loss])[Anomaly.LOST].because == ("leader_change", "isr_power_loss")
    for planned, unplanned in ((change, replace_planned(loss)), (loss, replace_planned(change))):
        ruling = contract(weak, [planned, unplanned])[Anomaly.LOST]
        assert ruling.because == (planned.kind,) and not ruling.only_unplanned
    both = contract(weak, [replace_planned(change), replace_planned(loss)])[Anomaly.LOST]
    assert both.only_unplanned and both.because == ("leader_change", "isr_power_loss")
    none_needed = contract(replace(weak, acks="0"), [change])[Anomaly.LOST]
    assert none_needed.because == () and not none_needed.only_unplanned


def replace_planned(disturbance: Disturbance) -> Disturbance:
    return structs.replace(disturbance, planned=False)


BITE_US, RECOVERED_US = 10_000_000, 20_000_000
INJECTION = Injection(
    id=0,
    cycle=0,
    action="kill",
    brokers=[1],
    hit={"t": [0]},
    requested_at_us=BITE_US,
    bite_at_us=BITE_US,
    recovered_at_us=RECOVERED_US,
    bit=True,
)


@pytest.mark.parametrize(
    ("at_us", "inside"),
    [
        (BITE_US - 1_000_001, False),
        (BITE_US - 1_000_000, True),
        (RECOVERED_US + 1_000_000, True),
        (RECOVERED_US + 1_000_001, False),
    ],
)
def test_an_injection_may_explain_what_was_seen_from_a_second_before_it_to_a_second_after_the_recovery(
    at_us: int, inside: bool
) -> None:
    assert in_window(INJECTION, at_us) is inside
    assert in_window(structs.replace(INJECTION, recovered_at_us=None), at_us) is (at_us >= BITE_US - 1_000_000)


@pytest.mark.parametrize(
    ("code", "crashed"), [(0, False), (-15, False), (143, False), (1, True), (-9, True), (-1, True)]
)
def test_only_an_end_by_sigterm_is_orderly(code: int, crashed: bool) -> None:
    state = Observation(at_us=9, kind="process", broker=1, state="exited", exit_code=code)
    kinds = [disturbance.kind for disturbance in disturbances([state], [])]
    assert ("broker_crash" in kinds) is crashed and ("broker_stop" in kinds) is not crashed
    assert code in SIGTERM_EXITS or crashed


FIELD_OF = {
    "acks": "acks",
    "enable.idempotence": "enable_idempotence",
    "retries": "retries",
    "max.in.flight.requests.per.connection": "max_in_flight",
    "min.insync.replicas": "min_insync_replicas",
    "unclean.leader.election.enable": "unclean_leader_election",
    "flush.messages": "flush_messages",
}


@pytest.mark.parametrize("text", [text for text in ALTERNATIVES if "=" in text])
def test_an_alternative_changes_what_its_text_says_and_at_most_switches_idempotence_off(text: str) -> None:
    says = {FIELD_OF[name]: value for name, value in (part.split("=") for part in text.split(" and "))}
    changes = {field: str(value).lower() for field, value in ALTERNATIVES[text].items()}
    assert {"enable_idempotence": "false"} | changes == {"enable_idempotence": "false"} | says
    if "enable_idempotence" not in says and "enable_idempotence" in changes:
        assert says.items() & {("acks", "0"), ("acks", "1"), ("retries", "0")}, "idempotence allows the others"


def test_an_alternative_without_eligible_leaders_has_none() -> None:
    assert ALTERNATIVES["no eligible leader replicas"] == {"elr": False, "transaction_log_elr": False}


def test_classes_of_faults_are_listed_or_those_that_are_missing_whichever_are_fewer() -> None:
    names = [fault_class.name for fault_class in FAULT_CLASSES]
    half = len(names) // 2
    assert _fault_classes(names) == "all"
    assert _fault_classes(names[: half + 1]) == f"all but {', '.join(names[half + 1 :])}"
    assert _fault_classes(names[:half]) == ", ".join(names[:half])


def test_an_alternative_says_what_it_loses_and_wins_but_not_what_follows() -> None:
    by_name = {alternative.setting: alternative for alternative in alternatives(replace(PLAIN, retries=0))}
    won = by_name["acks=all and enable.idempotence=true"]
    assert "exactly_once" in won.won and not won.lost
    assert "acks=all" not in by_name, "it changes nothing"
    text = lines([won])
    assert text[0] == "  with acks=all and enable.idempotence=true"
    assert text[1:] and all(line.startswith("    won is ") and "exactly_once" not in line for line in text[1:])
    assert any(line.startswith("    lost is at_least_once under ") for line in lines([by_name["acks=1"]]))


def test_the_lines_on_the_java_client_say_whose_source_they_rest_on() -> None:
    text = clients.lines(clients.java_contract(replace(PLAIN, max_in_flight=1)))
    assert text[1] == "where the Java client differs from librdkafka with these settings, by its source"
    assert "the Java client under each class of faults, by its source" in text
    assert len(clients.lines(clients.java_contract(SAFE))) == 2


def test_a_claim_tolerates_no_record_of_what_it_forbids() -> None:
    assert claim_tolerances("at_least_once")[Anomaly.LOST] == 0
    assert set(claim_tolerances("exactly_once").values()) == {0} and claim_tolerances("contract") == {}


def test_what_one_rule_permits_without_any_disturbance_needs_none_of_another() -> None:
    always = contract(replace(PLAIN, acks="0"), [])[Anomaly.LOST]
    after = contract(replace(PLAIN, acks="1"), [seen("leader_change")])[Anomaly.LOST]
    assert not always.because and after.because == ("leader_change",)
    for ruling, other in ((always, after), (after, always)):
        assert _add_reasons(ruling, other) == structs.replace(ruling, because=())
    assert _add_reasons(after, after) == after
    unplanned = structs.replace(after, only_unplanned=True, because=("unclean_election",))
    assert _add_reasons(after, unplanned) == after and _add_reasons(unplanned, after) == unplanned
