"""The evidence of sound runs, made by hand and drawn by a seed: what a sound cluster and a sound verifier may show.

A small cluster in memory goes through a fault plan. The observer sees each change up to 0.9 s late, ISRs shrink twice,
elections pass through a leaderless moment, attempts stay unanswered and are resolved, the weak control loses records.
Nothing of this speaks against the strong profiles of the subjects: each of these runs must be HELD.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import pyarrow as pa

from delivery_verifier.canary import expected_counts
from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.catalogue.parts import after, step
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep
from delivery_verifier.model.history import TRANSACTION_STATE, Injection, Observation
from delivery_verifier.model.late_ends import facts_of, name_of
from delivery_verifier.model.scenario import Arm, Claim, Load, Scenario
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.run_directory.tally import TABLES, Tally
from delivery_verifier.verdict.evidence import Evidence
from delivery_verifier.verdict.transaction_counts import TransactionCounts
from support.evidence import SECOND, Rows, beat, case, cases, replicas, the_rows

STRONG = ("safe", "idempotent", "transactional")
"""The profiles under test: none of them may lose, duplicate or reorder a record under the faults of these runs."""
EFFECTIVE = tuple(
    name for name, act in ACTS.items() if act.takes_effect and act.whom != "application" and not act.by_others
)
"""Every fault action of the catalogue, but those on applications: these runs have none."""
_BROKERS = (1, 2, 3)
_OF_CLIENTS = ("kill_producer", "terminate_producer", "resend", "alter_topic", "add_partitions")
_SENDS_AGAIN = ("kill_producer", "resend")
_WITHOUT_TRANSACTIONS = ("kill_producer", "terminate_producer", "resend")
"""Actions that no plan combines with transactions."""
_TARGETS = {"elect_preferred": "all"} | dict.fromkeys(_OF_CLIENTS, "none")
_OPTIONS: dict[str, dict[str, Any]] = {
    "alter_topic": {"setting": "min.insync.replicas", "value": 1},
    "add_partitions": {"count": 1},
}
Key = tuple[str, int]
"""A topic and the number of a partition."""


@dataclass
class SoundRun:
    """One run: what the verifier would have written down. `evidence` turns this into what the judge reads.

    `cases` are rows of anomalies/. `more` are fields of Evidence that differ from those of a run without a flaw.
    """

    scenario: Scenario
    rows: Rows
    injections: list[Injection]
    observations: list[Observation]
    offsets: Offsets
    transactions: dict[str, TransactionCounts]
    cases: list[dict[str, object]]
    replica_changes: dict[str, dict[str, object]] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def subject(self) -> Arm:
        """The arm under test."""
        return self.scenario.subjects[0]

    def evidence(self) -> Evidence:
        """Returns the evidence, with invariants that follow from the counts."""
        invariants = _invariants(self.rows)
        rows = self.rows | {
            "counts/invariants.parquet": [invariants.get(_invariant_key(row), row) for row in self.rows[_INVARIANTS]]
        }
        tables = {name: pa.Table.from_pylist(listed) for name, listed in rows.items() if listed}
        if not rows[_EXPOSURE]:
            tables[_EXPOSURE] = pa.table({name: [] for name in TABLES[_EXPOSURE]})
        known: dict[str, Any] = {
            "scenario": self.scenario,
            "injections": self.injections,
            "observations": self.observations,
            "offsets": self.offsets,
            "tally": Tally.from_tables(tables),
            "canary_expected": expected_counts(self.scenario),
            "replicas": replicas(self.offsets.partitions, **self.replica_changes),
            "foreign_writers": {},
            "transactions": self.transactions,
            "cases": cases(*self.cases),
        }
        return Evidence(**known | self.more)


_PRODUCERS, _PARTITIONS, _INVARIANTS = (
    "counts/producers.parquet",
    "counts/partitions.parquet",
    "counts/invariants.parquet",
)
_EXPOSURE, _LOAD, _CASES = "counts/exposure.parquet", "timeline/load.parquet", "counts/cases.parquet"


def sound_run(seed: int, action: str = "") -> SoundRun:
    """Returns the sound run of a seed, under the fault `action`; without a fault if `action` is empty.

    The seed draws the profile, the claim, the load, the target, the times and everything that the faults bring about.
    """
    draw = Random(f"{seed} {action}")
    profiles = [name for name in STRONG if name != "transactional" or action not in _WITHOUT_TRANSACTIONS]
    # A resend by the application breaks the claim of exactly_once: it is no promise of Kafka.
    claims: list[Claim] = [claim for claim in CLAIMS if claim != "exactly_once" or action not in _SENDS_AGAIN]
    run = scenario(
        f"healthy-{seed}-{action or 'quiet'}",
        profile=PROFILES[profiles[sum(divmod(seed, len(EFFECTIVE))) % len(profiles)]],
        fault=_plan(draw, action) if action else FAULTS["none"],
        claim=draw.choice(claims),
        load=Load(),
        records=draw.randint(1000, 9000),
        producers=draw.randint(1, 3),
    )
    cluster = _Cluster(draw, run)
    cluster.go_through(run.fault)
    return _written(draw, run, cluster)


def _plan(draw: Random, action: str) -> FaultPlan:
    """Returns a plan that does `action`, and heals it, in one to three cycles."""
    target = _TARGETS.get(action) or draw.choice(["leader", "follower", "next"])
    fault = step(after(1), action, target, **_OPTIONS.get(action, {}))
    healers = [name for name, act in ACTS.items() if action in act.heals and not act.takes_effect]
    steps: tuple[FaultStep, ...] = (fault, *(step(after(2), name) for name in healers))
    if action == "elect_unclean":  # only a partition without a leader can be given one
        steps = (
            step(after(1), "kill", "followers"),
            step(after(1), "kill", "leader"),
            step(after(1), "start", "follower"),
            step(after(1), action, "follower"),
            step(after(1), "start", "all"),
        )
    return FaultPlan(name=action, summary=action, steps=steps, cycles=draw.randint(1, 3))


@dataclass
class _State:
    leader: int
    epoch: int
    isr: list[int]


class _Cluster:
    """Three brokers in memory, an observer that sees them late, and what was injected."""

    def __init__(self, draw: Random, run: Scenario) -> None:
        self.draw, self.run = draw, run
        self.injections: list[Injection] = []
        self._event_us = 0
        self.now_us = self.first_us = draw.randint(1, 10**15)
        keys = [(arm.topic_name, number) for arm in run.arms for number in range(run.load.partitions)]
        keys += [(TRANSACTION_STATE, number) for number in range(2)] if run.transactional else []
        self.states = {key: _State(key[1] % 3 + 1, 0, list(_BROKERS)) for key in keys}
        self.down: set[int] = set()
        self.seen = [Observation(at_us=self.now_us, kind="process", broker=id, state="running") for id in _BROKERS]
        created = draw.random() < 0.3
        for key, state in self.states.items():  # some topics are seen while they are being created
            if created:
                self.look(key, leader=-1, isr=[])
                self.look(key, isr=[state.leader])
            self.look(key)
        self.load_from_us = self.pass_s(2, 20)

    def pass_s(self, least: float, most: float) -> int:
        """Lets between `least` and `most` seconds pass. Returns the time then."""
        self.now_us += int(self.draw.uniform(least, most) * SECOND)
        return self.now_us

    def look(self, key: Key, **changes: Any) -> None:
        """Lets the observer see a partition, now."""
        state = self.states[key]
        observed: dict[str, Any] = {"leader": state.leader, "leader_epoch": state.epoch, "isr": list(state.isr)}
        place: dict[str, Any] = {"at_us": self.now_us, "kind": "partition", "topic": key[0], "partition": key[1]}
        self.seen.append(Observation(**place | observed | changes))

    def look_late(self, keys: list[Key]) -> None:
        """Lets the observer see partitions, each up to 0.9 s from now."""
        event_us = self.now_us
        for lag in sorted(self.draw.uniform(0, 0.9) for _ in keys):
            self.now_us = event_us + int(lag * SECOND)
            self.look(keys.pop(self.draw.randrange(len(keys))))

    def process(self, brokers: list[int], state: Any, exit_codes: tuple[int, ...] = ()) -> None:
        """Lets the observer see the processes of brokers in another state."""
        for broker in brokers:
            code = self.draw.choice(exit_codes) if exit_codes else None
            at_us = self.pass_s(0, 0.2)
            self.seen.append(Observation(at_us=at_us, kind="process", broker=broker, state=state, exit_code=code))

    def go_through(self, plan: FaultPlan) -> None:
        """Goes through the fault plan, all cycles."""
        for cycle in range(plan.cycles):
            named = self._named(cycle)
            target = "none"
            for action in plan.steps:
                target = action.target if action.target != "same" else target
                self.pass_s(0.2, 3)
                brokers = sorted(named[target])
                if action.act.takes_effect:
                    self._inject(action, brokers, cycle)
                else:
                    self._heal(action, brokers)

    def _named(self, cycle: int) -> dict[str, set[int]]:
        leader = self.states[self.run.arms[0].topic_name, 0].leader
        followers = set(_BROKERS) - {leader}
        return {
            "leader": {leader},
            "followers": followers,
            "follower": {min(followers)},
            "next": {cycle % 3 + 1},
            "all": set(_BROKERS),
            "none": set(),
        }

    def _inject(self, action: FaultStep, brokers: list[int], cycle: int) -> None:
        number, requested_us = len(self.injections) + 1, self.now_us
        before = dict(self.states)
        hit, led = self._hit(action, brokers)
        injection = Injection(
            id=number,
            cycle=cycle,
            action=action.action,
            brokers=brokers,
            hit=hit,
            requested_at_us=requested_us,
            effect_at_us=self.pass_s(0, 0.01),
            took_effect=True,
            led=led,
            options=dict(action.options),
        )
        proof = self._break(action.action, brokers, list(before))
        over: dict[str, Any] = {"proof": proof}
        if action.act.momentary:
            over |= dict.fromkeys(("healed_at_us", "recovered_at_us"), max(injection.effect_at_us, self._event_us))
        self.injections.append(msgspec.structs.replace(injection, **over))

    def _hit(self, action: FaultStep, brokers: list[int]) -> tuple[dict[str, list[int]], bool]:
        """Returns the partitions that the brokers lead, by topic; those of which they hold a replica if they lead none.

        An injection without brokers hits all partitions that carry load.
        """
        arms = self.run.subjects if action.act.only_subject_topics else self.run.arms if brokers else self.run.loaded
        numbers = range(self.run.load.partitions)
        led = {arm.topic_name: [at for at in numbers if self._leads(arm, at, brokers)] for arm in arms}
        if brokers and any(led.values()):
            return led, True
        return {arm.topic_name: list(numbers) for arm in arms}, not brokers

    def _leads(self, arm: Arm, number: int, brokers: list[int]) -> bool:
        return self.states[arm.topic_name, number].leader in brokers

    def _break(self, action: str, brokers: list[int], keys: list[Key]) -> dict[str, object]:
        """Lets the cluster suffer `action`. Returns the proof that some effects need."""
        self._event_us = self.now_us
        if action in ("kill", "power_off"):
            self.process(brokers, "exited", (-9,))
            self.pass_s(0.1, 7)
            self._leave(set(brokers))
        elif action == "stop":
            self._leave(set(brokers))
            self.process(brokers, "exited", (0, -15, 143))
        elif action in ("pause", "isolate"):
            if action == "pause":
                self.process(brokers, "frozen")
            self.pass_s(6, 9)
            self._leave(set(brokers))
        elif action == "elect_preferred":
            return {"re_elected": self._elect(keys)}
        elif action == "elect_unclean":
            topics = {arm.topic_name for arm in self.run.subjects}
            offline = [key for key, state in self.states.items() if key[0] in topics and state.leader < 0]
            for key in offline:
                self._lead(key, brokers[0], [brokers[0]])
            self.look_late(list(offline))
            return {"elected": {f"{topic}-{number}": brokers[0] for topic, number in offline}}
        elif action == "delay_end":
            names = [name_of(of, self.draw.random() < 0.5, brokers[0]) for of in self.run.transactional_ids]
            return {
                "process_before_heal": {name: facts_of(0, 6000, {"EndTxn": self.draw.randint(0, 1)}) for name in names}
            }
        return {}

    def _elect(self, keys: list[Key]) -> dict[str, object]:
        elected = [key for key in keys if key[0] != TRANSACTION_STATE]
        for key in elected:
            state = self.states[key]
            self._lead(key, state.leader % 3 + 1, state.isr)
        proof: dict[str, object] = {
            f"{key[0]}-{key[1]}": {"leader": self.states[key].leader, "leader_epoch": self.states[key].epoch}
            for key in elected
        }
        self._event_us = self.now_us
        self.look_late(elected)
        return proof

    def _lead(self, key: Key, leader: int, isr: list[int]) -> None:
        self.states[key] = _State(leader, self.states[key].epoch + 1, list(isr))

    def _leave(self, brokers: set[int]) -> None:
        """Takes brokers from all ISRs, and gives others what they led. Where nobody is left, nobody leads."""
        self.down |= brokers
        self._event_us = self.now_us
        changed = [key for key, state in self.states.items() if state.leader in brokers or brokers & set(state.isr)]
        passing = [key for key in changed if self.states[key].leader in brokers and self.draw.random() < 0.2]
        for key in passing:  # a look in the middle of the election
            self.states[key].epoch += 1
            self.look(key, leader=-1)
        for key in changed:
            state = self.states[key]
            rest = [broker for broker in state.isr if broker not in brokers]
            if state.leader in brokers:
                self._lead(key, self.draw.choice(rest) if rest else -1, rest or state.isr)
            else:
                bumped = self.draw.random() < 0.3
                self.states[key] = _State(state.leader, state.epoch + bumped, rest or state.isr)
        self.look_late(list(changed))

    def _heal(self, action: FaultStep, brokers: list[int]) -> None:
        """Ends the open injections that `action` heals, as far as `brokers` are theirs. ISRs fill up again."""
        back = [broker for broker in brokers if broker in self.down]
        healed_us = self.pass_s(0, 0.05)
        if back and action.action in ("start", "resume"):
            self.process(back, "running")
        self.down -= set(back)
        if back:
            self.pass_s(0.3, 5)
            self._rejoin(back)
        full = not self.down
        for index, injection in enumerate(self.injections):
            healed = injection.healed_at_us
            if injection.action in action.act.heals and healed is None and not self.down & set(injection.brokers):
                healed = healed_us
            recovered = injection.recovered_at_us
            if recovered is None and healed is not None and full:
                recovered = max(self._event_us, healed) + self.draw.randint(0, SECOND // 10)
            self.injections[index] = msgspec.structs.replace(injection, healed_at_us=healed, recovered_at_us=recovered)

    def _rejoin(self, brokers: list[int]) -> None:
        flapping = self.draw.random() < 0.3
        for key, state in self.states.items():
            if state.leader < 0:
                leaders = [broker for broker in state.isr if broker in brokers]
                if not leaders:
                    continue  # whoever was in the ISR is still away
                self._lead(key, leaders[0], leaders)
                self.look(key)
            state = self.states[key]
            grown = [*state.isr, *(broker for broker in brokers if broker not in state.isr)]
            if flapping and grown != state.isr:  # a replica falls behind again before it has settled
                self.look(key, isr=grown)
                self.pass_s(0, 0.3)
                self.look(key)
            self.states[key] = _State(state.leader, state.epoch, grown)
        self._event_us = self.now_us
        self.look_late(list(self.states))


def _written(draw: Random, run: Scenario, cluster: _Cluster) -> SoundRun:
    """Returns what the verifier writes down of the load on the cluster, and of the snapshot."""
    cluster.pass_s(1.5, 6)
    end_us = cluster.now_us
    rows, listed = the_rows(run), list[dict[str, object]]()
    for arm in run.loaded:
        listed += _count_load(draw, arm, rows, cluster)
        totals = Counter[str]()
        for row in _rows_of(rows, arm.name):
            totals.update({name: row[name] for name in ("attempted", "reported", "indeterminate", "failed")})
        rows[_LOAD] = [row for row in rows[_LOAD] if row["arm"] != arm.name]
        rows[_LOAD] += _timeline(arm.name, totals, cluster, end_us)
    rows[_LOAD] = [row for row in rows[_LOAD] if row["arm"] != run.canary.name]
    for row in rows[_CASES]:
        row["cases"] = row["written"] = sum(
            (found["arm"], found["kind"]) == (row["arm"], row["kind"]) for found in listed
        )
    rows[_EXPOSURE] = [_exposed(draw, arm, injection) for injection in cluster.injections for arm in run.loaded]
    taken_us = cluster.pass_s(1, 5)
    transactions = {arm.name: _transactions(draw) for arm in run.loaded if arm.transactional_id}
    return SoundRun(
        scenario=run,
        rows=rows,
        injections=cluster.injections,
        observations=_with_heartbeats(draw, cluster.seen, cluster.first_us, taken_us),
        offsets=_snapshot(draw, run, rows, cluster, taken_us),
        transactions=transactions,
        cases=listed,
    )


def _count_load(draw: Random, arm: Arm, rows: Rows, cluster: _Cluster) -> list[dict[str, object]]:
    """Draws the counts of an arm's producers. Returns its cases: losses of acks=0, and what was sent again."""
    weak, listed = str(arm.profile.producer["acks"]) == "0", list[dict[str, object]]()
    cells = [row for row in _rows_of(rows, arm.name) if row["producer"] >= 0]
    least = -(-arm.records // len(cells))
    actions = {injection.action for injection in cluster.injections}
    for row in cells:
        reported = least + draw.randint(0, least // 3)
        unanswered = 0 if weak else draw.randint(0, 25) if actions else draw.choice([0, 0, 0, 1])
        present = draw.randint(0, unanswered)
        hurt = [
            injection for injection in cluster.injections if row["partition"] in injection.hit.get(arm.topic_name, [])
        ]
        lost = draw.randint(0, 40) if weak and any(injection.brokers for injection in hurt) else 0
        again = draw.randint(0, present) if actions & set(_SENDS_AGAIN) else 0
        row |= dict.fromkeys(row.keys() - {"arm", "producer", "session", "partition"}, 0)
        row |= {"sent" if weak else "acked": reported, "reported": reported, "lost": lost, "found": reported - lost}
        row |= {"attempted": reported + unanswered, "indeterminate": unanswered}
        row |= {"resolved_present": present, "resolved_absent": unanswered - present, "resent": again}
        if actions & {
            "kill_producer",
            "terminate_producer",
        }:  # what the former incarnation sent may arrive behind what the next incarnation sent
            row["resolved_late"] = draw.randint(0, present)
        row["log_records"] = row["first_copies"] = row["found"] + present
        for count, kind in ((lost, "LOST"), (again, "RESENT")):
            for _ in range(count):
                injection = draw.choice(hurt)
                sent_us = draw.randint(injection.effect_at_us, injection.recovered_at_us or 0)
                listed.append(case(sent_us, sent_us + 2000, kind, arm=arm.name, at=row["partition"]))
    return listed


def _rows_of(rows: Rows, arm: str) -> list[dict[str, Any]]:
    return [row for row in rows[_PRODUCERS] if row["arm"] == arm]


def _timeline(arm: str, totals: Counter[str], cluster: _Cluster, end_us: int) -> list[dict[str, Any]]:
    """Returns rows of timeline/load, one per second. Reports are spread evenly. The unanswered fall into faults."""
    times = list(range(cluster.load_from_us, end_us, SECOND))
    inside = [
        at for at in times if any(it.effect_at_us <= at <= (it.recovered_at_us or 0) for it in cluster.injections)
    ]
    bad = inside[-1] if inside else times[-1]
    empty = {"arm": arm, "indeterminate": 0, "failed": 0, "latency_ms_p50": 1.5, "latency_ms_p99": 40.0}
    rows = []
    for index, at in enumerate(times):
        row: dict[str, Any] = empty | {"at_us": at}
        for name, total in (("sent", totals["attempted"]), ("reported", totals["reported"])):
            row[name] = total // len(times) + (index < total % len(times))
        rows.append(row | ({"indeterminate": totals["indeterminate"]} if at == bad else {}))
    return rows


def _exposed(draw: Random, arm: Arm, injection: Injection) -> dict[str, Any]:
    weak = str(arm.profile.producer["acks"]) == "0"
    outstanding = 0 if weak or (injection.id > 1 and draw.random() < 0.3) else draw.randint(1, 500)
    return {
        "arm": arm.name,
        "injection": injection.id,
        "reported": draw.randint(100, 900),
        "outstanding": outstanding,
    }


def _transactions(draw: Random) -> TransactionCounts:
    committed, aborted = draw.randint(1, 300), draw.randint(1, 60)
    return TransactionCounts(committed + aborted + draw.randint(0, 2), committed, aborted)


def _with_heartbeats(draw: Random, seen: list[Observation], first_us: int, last_us: int) -> list[Observation]:
    """Returns the observations with a heartbeat about once a second, each after a pause of up to 0.95 s."""
    heartbeats, at_us = [], first_us
    while at_us <= last_us:
        heartbeats.append(beat(at_us, draw.randint(20_000, 950_000)))
        at_us += draw.randint(SECOND, int(1.9 * SECOND))
    return sorted([*seen, *heartbeats], key=lambda observation: observation.at_us)


def _snapshot(draw: Random, run: Scenario, rows: Rows, cluster: _Cluster, taken_us: int) -> Offsets:
    """Returns the snapshot, and writes the counts of the partitions that fit it."""
    parts = []
    for row in rows[_PARTITIONS]:
        arm = run.arm(row["arm"])
        data = sum(part["log_records"] for part in _rows_of(rows, arm.name) if part["partition"] == row["partition"])
        markers = draw.randint(1, 300) if arm.transactional_id else 0
        row |= {"data_records": data, "control_records": markers, "end": data + markers}
        state = cluster.states[arm.topic_name, row["partition"]]
        parts.append(
            PartitionSnapshot(
                arm=arm.name,
                topic=arm.topic_name,
                partition=row["partition"],
                start=0,
                end=data + markers,
                live_end=data + markers + draw.randint(2, 5),
                leader=state.leader,
                leader_epoch=state.epoch,
                control_records=markers,
            )
        )
    return Offsets(bootstrap_servers="", taken_at_us=taken_us, partitions=parts)


def _invariant_key(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["invariant"], row["arm"], row["partition"]


def _invariants(rows: Rows) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Returns the equations of those invariants whose two sides stand in the other counts, by invariant, arm and
    partition."""
    invariants: dict[tuple[str, str, int], dict[str, Any]] = {}

    def add(invariant: str, place: dict[str, Any], left: int, right: int, at: int | None = None) -> None:
        row = {"invariant": invariant, "arm": place["arm"], "partition": place["partition"] if at is None else at}
        invariants[_invariant_key(row)] = row | {
            "left_name": "left",
            "left": left,
            "right_name": "right",
            "right": right,
        }

    for part in rows[_PARTITIONS]:
        sums = Counter[str]()
        for row in _rows_of(rows, part["arm"]):
            if row["partition"] == part["partition"]:
                sums.update({name: count for name, count in row.items() if isinstance(count, int)})
        add("offsets_accounted", part, part["end"] - part["start"], part["data_records"] + part["control_records"])
        add("log_moved", part, part["tail_records"], 0)
        add("start_zero", part, part["start"], 0)
        add(
            "outcomes_sum",
            part,
            sums["attempted"],
            sum(sums[it] for it in ("acked", "sent", "failed", "indeterminate")),
        )
        add("reported_sum", part, sums["reported"], sums["found"] + sums["lost"])
        lines = sum(sums[name] for name in ("first_copies", "extra_copies", "phantoms", "unattributed"))
        add("log_sum", part, part["data_records"], lines)
    for row in rows[_CASES]:
        if row["kind"] == Anomaly.LOST:
            add("anomaly_rows", row | {"partition": -1}, row["written"], row["cases"])
    return invariants
