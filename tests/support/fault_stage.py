"""A cluster on which tests inject faults, one plan after another, without a load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from delivery_verifier.catalogue import FAULTS, scenario
from delivery_verifier.cluster import lease, topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.actions import heal
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.history import Injection, Observation
from delivery_verifier.model.scenario import Load, Profile, Scenario
from support.patience import PATIENCE_S
from support.quiet_load import QuietLoad

AT_ONCE = Trigger(kind="at_once")


@dataclass
class FaultStage:
    """A cluster, and a scenario whose topics exist on the cluster and are observed."""

    cluster: Cluster
    scenario: Scenario

    @classmethod
    def of(cls, cluster: Cluster, name: str, profile: Profile) -> FaultStage:
        """Returns a stage with new topics, which are observed. Its subject has `profile`. Waits until all replicas are
        in sync."""
        made = cls(cluster, scenario(name, profile=profile, fault=FAULTS["none"], load=Load(), records=0))
        topics.create(made.scenario, cluster.connection)
        made.wait_whole()
        made.watch()
        return made

    @property
    def topics(self) -> list[str]:
        return [arm.topic_name for arm in self.scenario.arms]

    @property
    def topic(self) -> str:
        """The topic of the subject."""
        return self.scenario.subjects[0].topic_name

    def wait_whole(self) -> None:
        """Waits until all replicas are in sync."""
        wait_until(lambda: self.cluster.isr_full(self.topics), "the cluster to be whole", PATIENCE_S)

    def watch(self) -> None:
        """Has the topics observed. Waits until the observer has seen a leader of every partition, because it takes
        what happened before its first look for no change."""
        self.cluster.agent.watch(self.topics)
        partitions = self.cluster.partitions(self.topics).keys()
        wait_until(
            lambda: {(it.topic, it.partition) for it in self.observed() if it.leader >= 0} >= partitions,
            "the observer to see every partition",
            PATIENCE_S,
        )

    @contextmanager
    def whole_afterwards(self) -> Iterator[None]:
        """Heals the cluster after the block, and waits until it is whole."""
        yield
        heal(self.cluster)
        self.wait_whole()

    def leader(self) -> int:
        return self.cluster.partitions([self.topic])[self.topic, 0].leader

    def pid(self, broker: int) -> int:
        return int(lease.call(self.cluster.socket, "status")["nodes"][str(broker)]["pid"])

    def inject(self, *steps: FaultStep) -> list[Injection]:
        """Runs a fault plan of these steps. A step that waits for reported records does not wait."""
        at_once = [
            msgspec.structs.replace(step, trigger=AT_ONCE) if step.trigger.kind == "reported" else step
            for step in steps
        ]
        plan = FaultPlan(name="planned", summary="planned", steps=tuple(at_once))
        made = msgspec.structs.replace(self.scenario, fault=plan)
        return FaultRunner(self.cluster, made, QuietLoad()).run()

    def observed(self) -> list[Observation]:
        """Returns what the observer has recorded so far."""
        lines = (self.cluster.workspace / "observations.jsonl").read_bytes()
        return msgspec.json.Decoder(Observation).decode_lines(lines[: lines.rfind(b"\n") + 1])
