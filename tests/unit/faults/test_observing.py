"""The fault `observe`: what the run waits for, and when it goes on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from delivery_verifier import catalogue
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.observer import OBSERVATIONS
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.faults import observing
from delivery_verifier.faults.observing import WAITS, Watch, has_own_addresses
from delivery_verifier.host.waiting import DeadlinePassed
from delivery_verifier.model.history import Observation, now_us
from delivery_verifier.model.scenario import Load, Scenario

S = 1_000_000


def scenario(**load: Any) -> Scenario:
    return catalogue.scenario(
        "r",
        profile=catalogue.PROFILES["safe"],
        fault=catalogue.FAULTS["observe"],
        load=Load(partitions=1, **load),
        records=1000,
    )


class Cluster:
    """A cluster whose observations a test writes."""

    def __init__(self, run: Scenario, workspace: Path) -> None:
        self.workspace, self.connection = workspace, Connection({1: Address("127.0.0.1", 1)})
        self.topics = [arm.topic_name for arm in run.arms]
        (workspace / OBSERVATIONS).touch()
        self.whole = True

    def partitions(self, topics: list[str]) -> dict[tuple[str, int], PartitionState]:
        return {(topic, 0): PartitionState(1, 0, (1, 2, 3), (1, 2, 3), (), 0) for topic in topics}

    def isr_full(self, topics: list[str]) -> bool:
        return self.whole

    def out_of_sync(self, topics: list[str]) -> str:
        return "(broker 1 silent)"

    def write(self, *seen: Observation) -> None:
        with (self.workspace / OBSERVATIONS).open("ab") as file:
            file.write(b"".join(msgspec.json.encode(each) + b"\n" for each in seen))

    def lead(self, leader: int, epoch: int, *isr: int) -> None:
        self.write(
            *(
                Observation(
                    at_us=now_us(),
                    kind="partition",
                    topic=topic,
                    partition=0,
                    leader=leader,
                    leader_epoch=epoch,
                    isr=[*isr],
                )
                for topic in self.topics
            )
        )


class Flowing:
    """A load that has begun after the first look."""

    def __init__(self) -> None:
        self.counts: Iterator[int] = iter((5, 5, 6))

    def reported(self) -> int:
        return next(self.counts, 6)

    def ended_early(self) -> str:
        return ""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "_EVERY_S", 0.005)
    monkeypatch.setattr(observing, "BEFORE_THE_END_S", 0.0)
    monkeypatch.setattr(observing, "HICCUP_US", 1000)


def watch(run: Scenario, cluster: Cluster, check: Any = lambda: None) -> tuple[Watch, list[str]]:
    said = list[str]()
    return Watch(cluster, run, Flowing(), check, lambda text, at_us: said.append(text)), said  # type: ignore[arg-type]


def test_if_nobody_breaks_anything_the_watch_ends_with_the_planned_time_and_has_no_injection(tmp_path: Path) -> None:
    run = scenario(duration_s=0.05)
    cluster = Cluster(run, tmp_path)
    cluster.lead(1, 0, 1, 2, 3)
    watching, said = watch(run, cluster)
    assert (watching.injections(), said) == ([], [WAITS])


def test_nobody_is_told_to_break_a_broker_before_the_observer_has_asked_every_broker_under_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "HICCUP_US", 200_000)
    run, began, told = scenario(duration_s=0.05), list[int](), list[int]()
    watching = Watch(
        Cluster(run, tmp_path),  # type: ignore[arg-type]
        run,
        Flowing(),  # type: ignore[arg-type]
        lambda: None,
        lambda text, at_us: told.append(at_us),
    )
    outside = watching._outside
    monkeypatch.setattr(watching, "_outside", lambda began_us: (began.append(began_us), outside(began_us))[1])
    watching.injections()
    assert began[0] + 200_000 <= told[0] <= now_us()


def test_it_goes_on_until_the_broker_is_back_and_leads_again(tmp_path: Path) -> None:
    run = scenario(duration_s=0.05)
    cluster = Cluster(run, tmp_path)
    cluster.lead(1, 0, 1, 2, 3)
    steps = iter([(2, 1, 2, 3), (2, 1, 1, 2, 3), (1, 2, 1, 2, 3)])
    turns = iter(range(10**9))

    def check() -> None:
        if next(turns) >= 2 and (step := next(steps, None)):  # the load flows from the second look on
            cluster.lead(*step)

    watching, said = watch(run, cluster, check)
    (injection,) = watching.injections()
    assert (injection.brokers, injection.recovered_at_us is not None) == ([1], True)
    assert said == [WAITS, "broker 1 was taken out"]


def test_what_is_not_over_in_time_has_no_recovery_and_the_run_goes_on(tmp_path: Path) -> None:
    run = scenario(duration_s=0.05, deadline_s=0.3)
    cluster = Cluster(run, tmp_path)
    cluster.lead(1, 0, 1, 2, 3)
    moved = iter([True])

    def check() -> None:
        if next(turns) == 2 and next(moved, False):
            cluster.lead(2, 1, 2, 3)

    turns = iter(range(10**9))
    (injection,) = watch(run, cluster, check)[0].injections()
    assert (injection.brokers, injection.recovered_at_us) == ([1], None)


def test_a_load_that_fails_ends_the_watch(tmp_path: Path) -> None:
    run = scenario(duration_s=60.0)

    def check() -> None:
        raise DeadlinePassed("the load")

    with pytest.raises(DeadlinePassed, match="the load"):
        watch(run, Cluster(run, tmp_path), check)[0].injections()


def test_of_brokers_behind_one_address_silence_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def behind(host: str, port: int, **_: object) -> list[Any]:
        if host == "unknown":
            raise socket.gaierror
        return [(2, 1, 6, "", ("10.0.0.1" if host.startswith("one") else host, port))]

    monkeypatch.setattr(socket, "getaddrinfo", behind)
    own = {1: Address("a", 9092), 2: Address("b", 9092), 3: Address("a", 9093)}
    assert has_own_addresses(Connection(own))
    assert not has_own_addresses(Connection({**own, 4: Address("unknown", 9092)})), "not known"
    assert not has_own_addresses(Connection({1: Address("one.a", 9092), 2: Address("one.b", 9092)}))


def test_what_is_known_of_the_brokers_is_taken_from_their_settings(tmp_path: Path) -> None:
    from delivery_verifier.model.external_cluster import ClusterAccess, ExternalCluster

    run = scenario()
    known = {"broker.session.timeout.ms": "3000", "auto.leader.rebalance.enable": "false"}
    external = ExternalCluster(access=ClusterAccess(), cluster_id="c", brokers=(1,), settings=known)
    run = replace(run, cluster=replace(run.cluster, external=external))
    outside = watch(run, Cluster(run, tmp_path))[0]._outside(7)
    assert (outside.session_us, outside.lag_us, outside.leaders_return) == (3 * S, 30 * S, False)
    assert {topic for topic, _ in outside.replicas} == {arm.topic_name for arm in run.loaded}
    assert outside.load_us == (7, 7) and all(brokers == {1, 2, 3} for brokers in outside.replicas.values())
