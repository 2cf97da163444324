"""Applications at work on real brokers, with the fault plan that runs beside them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import pyarrow as pa

from delivery_verifier.applications.handle import RunningApplications
from delivery_verifier.applications.incarnations import incarnations_of
from delivery_verifier.applications.member_process import MemberProcess
from delivery_verifier.applications.pool import MemberPool
from delivery_verifier.applications.sink import IncarnationEffects, SinkInputs
from delivery_verifier.applications.sinks import sink_of
from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.catalogue.arm_clients import ONLY_LIBRDKAFKA
from delivery_verifier.catalogue.entry import ArmPlan, Entry, build
from delivery_verifier.catalogue.parts import scripted
from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.action import ActionContext
from delivery_verifier.faults.applications import are_caught_up
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.load.live_ledger import Gate, State
from delivery_verifier.load.pool import ProducerPool
from delivery_verifier.model.client import CLIENTS, VersionedClient
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep
from delivery_verifier.model.history import Injection
from delivery_verifier.run_directory.effect_tables import JOURNAL
from delivery_verifier.run_directory.group_log import GroupLog, read_group_log
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.run_directory.table import arrow_schema
from delivery_verifier.settlement.applications import journal_rows
from delivery_verifier.settlement.group_log import write_group_log
from delivery_verifier.settlement.outputs import VisibleRecords
from delivery_verifier.verdict.group_log import differences
from support.patience import PATIENCE_S

NAMES = ("commit_first", "commit_after", "store_after")


class Stage:
    """Arms with applications at work on a cluster, and the fault plan that runs beside them. Blocks have 20 records."""

    def __init__(
        self, cluster: Cluster, workspace: Path, entry: Entry, clients: Sequence[VersionedClient] = ONLY_LIBRDKAFKA
    ) -> None:
        self.cluster, self.workspace, self.scenario = cluster, workspace, build(entry, workspace.name, clients=clients)
        topics.create(self.scenario, cluster.connection)
        names = [arm.topic_name for arm in self.scenario.arms]
        wait_until(lambda: cluster.isr_full(names), "all replicas to be in sync", PATIENCE_S)
        connections = {client: cluster.load_connection.properties_of(client) for client in CLIENTS}
        self.members = MemberPool(self.scenario, connections, workspace, cluster.agent.adopt)
        self.pool = ProducerPool(self.scenario, connections, workspace)
        self.handle = RunningApplications(self.scenario, workspace)

    def play(self) -> list[Injection]:
        """Runs the plan and the load until both have ended, and stops all members in order. Returns the injections."""
        try:
            self.pool.wait_for(State.READY)
            self.members.start()
            self.pool.open(Gate.WARM_UP)
            self.pool.wait_for(State.WARM)
            self.pool.open(Gate.GO)
            injections = self._inject()
            self.pool.open(Gate.RELEASE)
            self.pool.wait_for(State.DONE)
            load = RunningLoad(self.scenario, self.workspace)
            context = ActionContext(self.cluster, [], {}, self.scenario, load, self.handle)
            wait_until(lambda: self.members.check() and are_caught_up(context), "the members to catch up", PATIENCE_S)
            self.members.stop()
            return injections
        finally:
            self.members.close()
            self.pool.kill()

    def _inject(self) -> list[Injection]:
        injections, raised = list[Injection](), list[BaseException]()

        def inject() -> None:
            load = RunningLoad(self.scenario, self.workspace)
            try:
                injections.extend(FaultRunner(self.cluster, self.scenario, load, applications=self.handle).run())
            except BaseException as error:
                raised.append(error)

        beside = threading.Thread(target=inject)
        beside.start()

        def has_ended() -> bool:
            self.members.apply_commands()
            return self.members.check() and self.pool.check() and not beside.is_alive()

        wait_until(has_ended, "the plan to end", PATIENCE_S)
        if raised:
            raise raised[0]
        return injections

    def effects(self) -> dict[str, list[list[int]]]:
        """Returns the offsets that each incarnation applied, in order, by the name of the arm."""
        return {
            member.arm.name: [
                self.offsets(incarnation)
                for incarnation in sink_of(member.application.discipline).read(self.inputs(member))
            ]
            for member in self.members.members
            if member.number == 0  # the effects of an application are read at once, those of its replacement, too
        }

    def offsets(self, incarnation: IncarnationEffects) -> list[int]:
        """Returns the offsets that an incarnation applied, in order. Asserts that there are as many effects as were
        counted."""
        assert incarnation.counted == len(incarnation.rows)
        return [int(offset) for offset in incarnation.rows["offset"]]

    def incarnations(self, arm: str) -> list[IncarnationEffects]:
        """Returns the effects of each incarnation of each member of an arm's application."""
        member = next(each for each in self.members.members if each.arm.name == arm)
        return list(sink_of(member.application.discipline).read(self.inputs(member)))

    def overtaken(self, arm: str) -> int:
        """Returns how many records of an arm were first applied after a record with a higher offset."""
        incarnations = self.incarnations(arm)
        ordered = sorted(
            (int(row["order"]), int(row["offset"])) for incarnation in incarnations for row in incarnation.rows
        )
        first = list(dict.fromkeys(offset for _, offset in ordered))
        return sum(offset < highest for offset, highest in zip(first, accumulate(first, max), strict=True))

    def group_log(self) -> GroupLog:
        """Returns what `__consumer_offsets` has of the groups, written down and read back, beside the journals."""
        run = RunDirectory(self.workspace / "run")
        with run.writing("plan") as output:
            output.write_json("scenario.json", self.scenario)
        with run.writing("settle") as output:
            write_group_log(self.scenario, self.cluster, output, began_us=0)
            for member in self.members.members:
                incarnations = incarnations_of(member.folder).items()
                rows = [
                    row
                    for incarnation, path in incarnations
                    for row in journal_rows(member.arm, member.number, incarnation, path)
                ]
                table = pa.Table.from_pylist(rows, arrow_schema(JOURNAL))
                output.write_table(f"journal/{member.name.replace('/', '-')}", table)
        group_log = read_group_log(run)
        assert group_log is not None
        return group_log

    def differences(self, group_log: GroupLog, is_rewound: bool = False) -> set[str]:
        """Returns the names of all doubts about the group log."""
        keys = [(member.arm.topic_name, 0) for member in self.members.members]
        ends = topics.high_watermarks(topics.admin(self.cluster.connection), keys)
        live_ends = {(member.arm.name, 0): ends[member.arm.topic_name, 0] for member in self.members.members}
        return {name for _, name, _ in differences(self.scenario, group_log, live_ends, is_rewound)}

    def inputs(self, member: MemberProcess) -> SinkInputs:
        """Returns what the sink of the member's application must know."""
        folder, connection = member.folder.parent, self.cluster.connection.client_properties()
        return SinkInputs(member.arm, folder, 10, self.scenario.run_token, connection, VisibleRecords(self.cluster))


def entry_of(*steps: FaultStep, names: tuple[str, ...] = NAMES) -> Entry:
    """Returns an entry with the fault plan `steps`, and an arm for each application in `names`."""
    arms = tuple(
        ArmPlan(name=name, role="subject", profile=PROFILES["safe"], application=APPLICATIONS[name]) for name in names
    )
    plan = FaultPlan(name="planned", summary="", steps=steps)
    return Entry(name="apps", title="", promise="", source="", tags=(), arms=arms, load=scripted(20), fault=plan)
