"""Tests of triggers, which start the steps of a fault plan. Each trigger fires when its condition is met, counted from
the end of the step before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec.structs import replace
from support.evidence import RUN
from support.fake_cluster import FakeCluster
from support.quiet_load import QuietLoad

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.faults import triggers as module
from delivery_verifier.faults.injections import Injections
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.faults.triggers import LoadEnded, Triggers
from delivery_verifier.host.waiting import DeadlinePassed
from delivery_verifier.model.fault_plan import FaultStep, Trigger


class CountedLoad(QuietLoad):
    """A load that changes whenever it is asked: the number of reported records grows by one, and the number of
    outstanding attempts falls by one."""

    def __init__(self) -> None:
        self.count, self.left = 0, 3

    def reported(self) -> int:
        """Returns one more than at the last call."""
        self.count += 1
        return self.count

    def outstanding(self, arms: Iterable[Any] | None = None) -> int:
        """Returns one less than at the last call."""
        self.left -= 1
        return self.left


class Partitions:
    """A stand-in for a cluster of three brokers, of which brokers 1 and 2 run, and broker 3 is frozen. All partitions
    have the given leader and ISR."""

    def __init__(self, leader: int, isr: tuple[int, ...]) -> None:
        self.leader, self.isr = leader, isr

    def running(self) -> list[int]:
        """Returns the brokers that run. Broker 3 does not run."""
        return [1, 2]

    def states(self) -> dict[int, str]:
        """Returns the state of each broker's process."""
        return {1: "running", 2: "running", 3: "frozen"}

    def partitions(self, topics: Iterable[str]) -> dict[tuple[str, int], PartitionState]:
        """Returns the state of partition 0 of each topic."""
        state = PartitionState(leader=self.leader, leader_epoch=1, replicas=(1, 2, 3), isr=self.isr, elr=(), error=0)
        return {(topic, 0): state for topic in topics}


def wait(
    kind: Any,
    value: float = 0.0,
    cluster: Any = None,
    load: CountedLoad | None = None,
    check_load: Callable[[], object] = lambda: None,
) -> None:
    """Waits for one trigger, as if no step of the plan had injected anything yet."""
    load = load or CountedLoad()
    scenario = replace(RUN, load=replace(RUN.load, deadline_s=5))
    triggers = Triggers(cluster, scenario, load, Injections(cluster, scenario, load), check_load)
    triggers.end_step()
    triggers.wait(FaultStep(trigger=Trigger(kind=kind, value=value), action="wait"))


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEADER_DEADLINE_S", 0.1)
    monkeypatch.setattr(module, "APPLIED_S", 0.0)


def test_elapsed_counts_from_the_end_of_the_step_before() -> None:
    begun = time.monotonic()
    wait("elapsed", 0.2)
    assert time.monotonic() - begun > 0.19


def test_reported_counts_records_from_the_end_of_the_step_before() -> None:
    load = CountedLoad()
    wait("reported", 3, load=load)
    assert load.count == 1 + 3


def test_reported_below_one_is_a_share_of_the_smallest_subject_per_cycle() -> None:
    smallest = min(arm.records for arm in RUN.subjects)
    triggers = Triggers(Any, RUN, CountedLoad(), Injections(Any, RUN, CountedLoad()), lambda: None)  # type: ignore[arg-type]
    assert triggers._records(0.5) == int(0.5 * smallest / RUN.fault.cycles) and triggers._records(7.0) == 7


def test_settled_waits_until_nothing_is_outstanding() -> None:
    load = CountedLoad()
    wait("settled", load=load)
    assert load.left == 0


@pytest.mark.parametrize("kind", ["leader_moved", "coordinator_moved", "deposed", "at_once"])
def test_an_effect_is_not_waited_for_where_nothing_was_injected(kind: str) -> None:
    wait(kind)


def test_led_waits_for_leaders_that_run() -> None:
    wait("led", cluster=Partitions(2, (1, 2, 3)))
    for leader in (-1, 3):
        with pytest.raises(DeadlinePassed, match="every partition of the subjects to have a leader that runs"):
            wait("led", cluster=Partitions(leader, (1, 2, 3)))


def test_who_waits_for_a_leader_in_vain_says_which_partition_who_its_replicas_are_and_who_is_down() -> None:
    topic = RUN.subjects[0].topic_name
    replicas = "replicas: broker 1 (running), broker 2 (running, not in sync), broker 3 (frozen)"
    for leader, words in ((-1, "no leader"), (3, "broker 3 leads")):
        with pytest.raises(DeadlinePassed) as raised:
            wait("led", cluster=Partitions(leader, (1, 3)))
        assert f"({topic}/0: {words}, {replicas})" in str(raised.value)


def test_isr_shrunk_waits_until_no_partition_that_is_led_counts_on_a_broker_that_does_not_run() -> None:
    wait("isr_shrunk", cluster=Partitions(1, (1, 2)))
    wait("isr_shrunk", cluster=Partitions(-1, (3,)))
    with pytest.raises(DeadlinePassed, match="the ISR to shrink"):
        wait("isr_shrunk", cluster=Partitions(1, (1, 2, 3)))


@pytest.mark.parametrize("kind", ["reported", "settled", "led"])
def test_a_load_that_has_failed_ends_the_waiting(kind: str) -> None:
    calls = []

    def failed() -> None:
        calls.append(1)
        if kind == "led" or len(calls) > 1:
            raise RuntimeError("the load has failed")

    with pytest.raises(RuntimeError, match="the load has failed"):
        wait(kind, 5, cluster=Partitions(-1, ()), check_load=failed)


class EndedLoad(CountedLoad):
    """A load whose subject ends after two reported records."""

    def reported(self) -> int:
        """Returns at most two."""
        self.count = min(self.count + 1, 2)
        return self.count

    def ended_early(self) -> str:
        """Returns the subject once it has ended."""
        return "one" if self.count == 2 else ""


def test_a_load_that_has_ended_early_ends_only_the_wait_for_its_records() -> None:
    wait("reported", 1, load=EndedLoad())  # it was there before the load ended
    with pytest.raises(LoadEnded, match="the load of one ended before 6 records to be reported before wait"):
        wait("reported", 5, load=EndedLoad())
    wait("elapsed", 0.01, load=EndedLoad())
    wait("settled", load=EndedLoad())


def test_a_fault_plan_whose_load_has_ended_early_ends_with_the_injections_that_it_has_made(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    after = [FaultStep(trigger=Trigger(kind="reported", value=value), action="wait") for value in (1, 5, 1)]
    plan = replace(RUN.fault, steps=tuple(after), cycles=3)
    cluster: Any = FakeCluster()
    runner = FaultRunner(Cluster(cluster), replace(RUN, fault=plan), EndedLoad())
    done: list[int] = []
    monkeypatch.setattr(runner, "_perform", lambda step, brokers, cycle: done.append(cycle))
    assert runner.run() == [] and done == [0]
    assert "the fault plan ends here: the load of one ended before" in caplog.text
