"""Histories of one partition with elections, played by three brokers that have logs, as an oracle of what was lost.

The brokers do what Kafka's do (KIP-101, KIP-279), and nothing else. A leader appends in its own epoch, and acknowledges
at once (acks=1). A new leader keeps its log. A follower cuts off what its leader does not have, and copies the rest. A
deposed leader goes on until it learns of its successor. The oracle knows every log at every time, and which leader
acknowledged which record. An observer sees some of it, late, and may see two elections as one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from delivery_verifier.model.history import Injection, Observation

BROKERS = (1, 2, 3)
MS = 1_000
SECOND = 1_000_000
LAG_US = 900 * MS
"""The observer is late by less than this."""
TOPIC = "t"


@dataclass
class Record:
    """One record of the client. `epoch`, `offset`: where its leader appended it; None if nobody acknowledged it."""

    number: int
    sent_us: int
    settled_us: int | None = None
    epoch: int | None = None
    offset: int | None = None


@dataclass
class Broker:
    """One broker.

    * `log`: (epoch, number of the record) by offset. `starts`: its leader epoch cache.
    * `leads`: the epoch in which it believes to lead; None if it follows.
    * `waiting`: the records in its sockets while it stands still.
    """

    log: list[tuple[int, int]] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    leads: int | None = None
    state: str = "running"
    cut_off: bool = False
    waiting: list[Record] = field(default_factory=list)

    def append(self, epoch: int, number: int) -> int:
        self.starts.setdefault(epoch, len(self.log))
        self.log.append((epoch, number))
        return len(self.log) - 1

    def truncate(self, end: int) -> None:
        del self.log[end:]
        self.starts = {epoch: start for epoch, start in self.starts.items() if start < end}

    def lead(self, epoch: int) -> None:
        self.leads = epoch
        end = len(self.log)
        self.starts = {known: start for known, start in self.starts.items() if start < end} | {epoch: end}


class Partition:
    """A partition that lives through a random history.

    `unclean`: whether a broker from outside the ISR may be elected. `missed`: whether the observer may miss epochs.
    `deaf`: how often new leaders do not answer the observer. `unrest`: how often something rare happens.
    """

    def __init__(
        self, seed: int, *, unclean: bool = False, missed: bool = True, deaf: float = 0.1, unrest: float = 0.04
    ) -> None:
        self.seed, self.dice = seed, random.Random(seed)
        self.unclean, self.missed, self.deaf, self.unrest = unclean, missed, deaf, unrest
        self.now_us = 0
        self.brokers = {number: Broker() for number in BROKERS}
        self.epoch, self.leader, self.isr = 0, 1, [1, 2, 3]
        self.brokers[1].lead(0)
        self.client = 1
        self.records: list[Record] = []
        self.elected: dict[int, list[tuple[int, int]]] = {0: []}
        """The log of each leader at its election, by epoch."""
        self.observations: list[Observation] = []
        self.injections: list[Injection] = []
        """The freezes, with the times at which they were healed."""
        self._seen_us = self._answered = self._settled_us = 0
        self._deposed: dict[int, int] = {}
        self._seen = 0, 1
        self._observe()

    # ---- What the oracle knows.

    def taker(self, record: Record) -> int | None:
        """Returns the epoch of the leader by whose election an acknowledged record was gone for good; None if the last
        leader had it."""
        assert record.epoch is not None and record.offset is not None
        taker = None
        for epoch in sorted((epoch for epoch in self.elected if epoch > record.epoch), reverse=True):
            if self.elected[epoch][record.offset : record.offset + 1] == [(record.epoch, record.number)]:
                break
            taker = epoch
        return taker

    def is_below_all_elections(self, record: Record) -> bool:
        """Returns whether a record stood below the end of every leader's log, where no epoch was missed."""
        ends = [len(log) for epoch, log in self.elected.items() if epoch]
        return not self.missed and record.offset is not None and record.offset < min(ends, default=0)

    def is_of_the_last_leader_alone(self, record: Record) -> bool:
        """Returns whether the last leader acknowledged a record that was sent long after everybody knew who led."""
        return record.epoch == self.epoch and record.sent_us > self._settled_us + 4 * SECOND

    # ---- What happens.

    def play(self, events: int) -> None:
        """Lets random things happen, then ends all disturbances, and writes two records behind everything."""
        actions = (self._send, self._send, self._send, self._send, self._replicate, self._replicate, self._refresh)
        rare = (self._kill, self._freeze, self._cut_off, self._elect, self._elect_twice, self._heal, self._heal)
        rare += (self._fall_behind,) * self.unclean
        for _ in range(events):
            self.now_us += self.dice.randrange(1, 300) * MS
            self._learn()
            (self.dice.choice(rare) if self.dice.random() < self.unrest else self.dice.choice(actions))()
        for _ in range(4):
            self.now_us += 2 * SECOND
            self._heal_all()
            for number in BROKERS:
                self._copy(number)
        self._observe()
        self._settled_us, self.client = self.now_us, self.leader
        for _ in range(4):
            self.now_us += 3 * SECOND
            self._send()
            for number in BROKERS:
                self._copy(number)

    @property
    def log(self) -> list[tuple[int, int]]:
        """The log of the leader: (epoch, number of the record) by offset."""
        return self.brokers[self.leader].log

    def _learn(self) -> None:
        """Former leaders that are well may learn that they are deposed. The observer asks whom it has to ask."""
        for number, broker in self.brokers.items():
            if number != self.leader and self._is_well(number) and self.dice.random() < 0.5:
                broker.leads = None
        self._ask()

    def _send(self) -> None:
        record = Record(len(self.records), self.now_us - self.dice.randrange(50) * MS)
        self.records.append(record)
        self._arrive(record, self.client)

    def _arrive(self, record: Record, number: int) -> None:
        broker = self.brokers[number]
        if broker.state == "frozen":
            broker.waiting.append(record)
        elif broker.state == "running" and broker.leads is not None:
            record.epoch, record.offset = broker.leads, broker.append(broker.leads, record.number)
            record.settled_us = self.now_us + self.dice.choice((1, 5, 900)) * MS

    def _refresh(self) -> None:
        """The client learns who leads, or believes a deposed leader."""
        running = [number for number in BROKERS if self.brokers[number].leads is not None]
        self.client = self.dice.choice([self.leader, self.leader, *running])

    def _replicate(self) -> None:
        self._copy(self.dice.choice(BROKERS), self.dice.choice((1, 3, 1000)))

    def _copy(self, number: int, most: int = 1_000_000) -> None:
        """A follower learns who leads, cuts off what the leader does not have, and copies up to `most` records."""
        broker, leader = self.brokers[number], self.brokers[self.leader]
        if number == self.leader or broker.state != "running" or broker.cut_off:
            return
        if leader.state != "running" or leader.cut_off or leader.leads != self.epoch:
            return
        broker.leads = None
        common = next(
            (at for at, pair in enumerate(zip(broker.log, leader.log, strict=False)) if pair[0] != pair[1]),
            min(len(broker.log), len(leader.log)),
        )
        broker.truncate(common)
        for epoch, record in leader.log[common : common + most]:
            broker.append(epoch, record)
        if len(broker.log) == len(leader.log) and number not in self.isr:
            self.isr = [*self.isr, number]
            self._observe()

    def _kill(self) -> None:
        self._stop("exited")

    def _freeze(self) -> None:
        self._stop("frozen")

    def _stop(self, state: str) -> None:
        number = self.dice.choice((self.leader, self.leader, *BROKERS))
        if self.brokers[number].state == "running" and self._living() > 1:
            self.brokers[number].state = state
            self._see(Observation(at_us=0, kind="process", broker=number, state=state), self.dice.randrange(100) * MS)
            self._fence(number)

    def _cut_off(self) -> None:
        number = self.dice.choice(BROKERS)
        if self.brokers[number].state == "running" and self._living() > 1:
            self.brokers[number].cut_off = True
            self._fence(number)

    def _fall_behind(self) -> None:
        """A follower is too slow, and leaves the ISR."""
        followers = [member for member in self.isr if member != self.leader]
        if followers:
            self.isr.remove(self.dice.choice(followers))
            self._observe()

    def _living(self) -> int:
        return sum(broker.state == "running" and not broker.cut_off for broker in self.brokers.values())

    def _fence(self, number: int) -> None:
        """The controller notices that a broker is gone, some time later, while the others go on."""
        for _ in range(self.dice.randrange(4)):
            self.now_us += self.dice.randrange(500) * MS
            self._send()
        rest = [member for member in self.isr if member != number]
        if number == self.leader:
            strangers = [other for other in BROKERS if self._is_well(other) and other not in rest]
            if self.unclean and strangers and self.dice.random() < 0.7:
                self._lead(strangers[0], [strangers[0]])
            elif heirs := [member for member in rest if self._is_well(member)]:
                self._lead(self.dice.choice(heirs), rest)
        elif rest:
            self.isr = rest
            self._observe()

    def _is_well(self, number: int) -> bool:
        return self.brokers[number].state == "running" and not self.brokers[number].cut_off

    def _elect(self) -> None:
        """A clean election that nothing forced: a controlled shutdown, or a preferred leader."""
        if heirs := [member for member in self.isr if self._is_well(member)]:
            self._lead(self.dice.choice(heirs), list(self.isr))

    def _elect_twice(self) -> None:
        """Two elections between two looks of the observer: it sees the second one alone."""
        before = self._observe
        if self.missed:
            self._observe = lambda: None  # type: ignore[method-assign]
        self._elect()
        self._observe = before  # type: ignore[method-assign]
        self.now_us += self.dice.randrange(50) * MS
        self._send()
        self._elect()

    def _lead(self, number: int, isr: list[int]) -> None:
        self.epoch, self.leader = self.epoch + self.dice.choice((1, 1, 1, 1 + self.missed)), number
        self.isr = isr if number in isr else [number]
        self.elected[self.epoch] = list(self.brokers[number].log)
        self.brokers[number].lead(self.epoch)
        self._observe()

    def _heal(self) -> None:
        number = self.dice.choice(BROKERS)
        self._wake(number)

    def _heal_all(self) -> None:
        for number in BROKERS:
            self._wake(number)
        if not self._is_well(self.leader) or self.brokers[self.leader].leads != self.epoch:
            self._lead(self.leader, list(self.isr))

    def _wake(self, number: int) -> None:
        broker = self.brokers[number]
        broker.cut_off = False
        if broker.state == "running":
            return
        if broker.state == "exited":  # it starts anew, and knows nobody
            broker.leads = None
        was, broker.state = broker.state, "running"
        self._see(Observation(at_us=0, kind="process", broker=number, state="running"), self.dice.randrange(100) * MS)
        waiting, broker.waiting = broker.waiting, []
        if was == "frozen":
            fields = {"id": len(self.injections), "cycle": 0, "action": "pause", "brokers": [number], "hit": {}}
            times = {"requested_at_us": 0, "effect_at_us": 0, "healed_at_us": self.now_us}
            self.injections.append(Injection(**fields, **times, took_effect=True))  # type: ignore[arg-type]
            for record in waiting:  # what stood in its sockets: it does not know yet that it is deposed
                self._arrive(record, number)
        if number == self.leader and was == "exited":
            self._lead(number, list(self.isr))

    # ---- What the observer sees.

    def _observe(self) -> None:
        partition = Observation(
            at_us=0,
            kind="partition",
            topic=TOPIC,
            partition=0,
            leader=self.leader,
            leader_epoch=self.epoch,
            isr=list(self.isr),
        )
        self._see(partition, self.dice.randrange(LAG_US))
        epoch, leader = self._seen
        self._seen = self.epoch, self.leader
        if self.epoch > epoch:
            self._deposed |= dict.fromkeys(BROKERS if self.epoch > epoch + 1 else (leader,), self.epoch)
            self._deposed.pop(self.leader, None)
        self._ask()

    def _ask(self) -> None:
        """The observer asks former leaders, and the leader if it has not answered yet."""
        for number, broker in self.brokers.items():
            if number in self._deposed and broker.state == "running" and broker.leads is None and not broker.cut_off:
                epoch = self._deposed.pop(number)
                said = {"topic": TOPIC, "partition": 0, "broker": number, "leader_epoch": epoch}
                self._see(Observation(at_us=0, kind="deposed", **said), 0)  # type: ignore[arg-type]
        leader = self.brokers[self.leader]
        if self.epoch == self._answered:
            return
        if self.dice.random() >= self.deaf and leader.leads == self.epoch and self._is_well(self.leader):
            starts = {"epochs": list(leader.starts), "epoch_starts": list(leader.starts.values())}
            said = Observation(at_us=0, kind="epochs", topic=TOPIC, partition=0, leader_epoch=self.epoch, **starts)
            self._see(said, 0)
            self._answered = self.epoch

    def _see(self, observation: Observation, late_us: int) -> None:
        """Writes an observation down, in the order in which it was made, and late by at most `late_us`."""
        self._seen_us = max(self._seen_us, self.now_us + late_us) if late_us else max(self._seen_us, self.now_us)
        fields = {name: getattr(observation, name) for name in observation.__struct_fields__}
        self.observations.append(Observation(**fields | {"at_us": self._seen_us}))
