"""Random lives of a cluster, as somebody outside sees them: the derived injections are exactly what was done."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from support.seeds import in_this_round

from delivery_verifier.contract.disturbances import disturbances
from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.contract.outside import HICCUP_US, Outside, Partition, injections_from_outside
from delivery_verifier.model.history import Injection, Observation

STEP_US = 100_000
"""How often the observer looks."""
S = 10
"""Steps of a second."""
LENGTH, LOAD = 300 * S, (20 * S, 290 * S)
SESSION = 9 * S
BROKERS = (1, 2, 3, 4)
COUNT = 200
NEVER_US = 10**12
pytestmark = pytest.mark.slow


@dataclass
class Deed:
    """What was done to a broker, in steps. `hit`: what it led when it was deposed, or of what it was a replica in sync.
    `shows`: whether it takes the broker out, as seen from outside."""

    kind: str
    broker: int
    begin: int
    deposed: int
    answers: int
    back: int
    hit: dict[str, list[int]] = field(default_factory=dict)
    led: bool = False
    shows: bool = False
    healed: int | None = None
    recovered: int | None = None

    @property
    def first_sign(self) -> int:
        """When it can first be seen: a broker that is cut off or stops answers until it is deposed."""
        return self.deposed if self.kind in ("cut_off", "stop") else self.begin


class Life:
    """The life of a cluster, step by step, with what the observer writes down."""

    def __init__(self, seed: int, *, gaps: bool = False) -> None:
        self.draw = Random(seed)
        self.replicas: dict[Partition, list[int]] = {
            ("t", number): self.draw.sample(BROKERS, 3) for number in range(self.draw.randint(1, 4))
        }
        self.leader = {key: brokers[0] for key, brokers in self.replicas.items()}
        self.first, self.at_load = dict(self.leader), dict(self.leader)
        self.epoch = dict.fromkeys(self.replicas, 0)
        self.isr = {key: set(brokers) for key, brokers in self.replicas.items()}
        self.gaps = gaps
        self.deeds, self.orders = list[Deed](), dict[int, list[tuple[str, Deed]]]()
        self.silent: dict[int, str] = {}
        self.seen, self._known = list[Observation](), dict[object, object]()
        self._answered = dict.fromkeys(BROKERS, 0)
        self._plan()
        for step in range(LENGTH):
            for order, deed in self.orders.get(step, ()):
                getattr(self, f"_{order}")(deed, step)
            self._note_recovery(step)
            if not self.is_gap(step):
                self._look(step)

    def is_gap(self, step: int) -> bool:
        """Whether the observer pauses."""
        return self.gaps and step % (40 * S) < self._gap

    def _plan(self) -> None:
        self._gap = self.draw.randint(2, 6) * S
        step = self.draw.randint(5, 30) * S
        free = dict.fromkeys(BROKERS, 0)
        while step < LENGTH - 80 * S and len(self.deeds) < 12:
            broker = self.draw.choice(BROKERS)
            kind = self.draw.choice(["kill", "stop", "freeze", "cut_off", "lag", "hiccup", "elect"])
            others = [each for each in BROKERS if each != broker and free[each] > step]
            if free[broker] <= step and (len(others) < 2 or kind in ("lag", "hiccup", "elect")):
                deed = self._deed(kind, broker, step)
                self.deeds.append(deed)
                free[broker] = deed.back + 70 * S
            step += self.draw.randint(1, 25 * S)

    def _deed(self, kind: str, broker: int, begin: int) -> Deed:
        after = {
            "kill": (1, SESSION),
            "stop": (1, 2),
            "freeze": (SESSION - S, SESSION),
            "cut_off": (SESSION - S, SESSION),
        }
        deposed = begin + self.draw.randint(*after.get(kind, (1, 2)))
        lasts = self.draw.randint(2 * S, 20 * S) if kind not in ("lag", "hiccup") else self.draw.randint(3, 15)
        answers = max(deposed + 2, begin + lasts) if kind != "hiccup" else begin + lasts
        deed = Deed(kind, broker, begin, deposed, answers, answers + self.draw.randint(2, 5 * S))
        orders = {
            "kill": [("silence", begin), ("depose", deposed), ("answer", answers), ("rejoin", deed.back)],
            "stop": [("depose", deposed), ("silence", deposed + 1), ("answer", answers), ("rejoin", deed.back)],
            "freeze": [("silence", begin), ("depose", deposed), ("answer", answers), ("rejoin", deed.back)],
            "cut_off": [("depose", deposed), ("rejoin", deed.back)],
            "lag": [("lag", begin), ("rejoin", deed.back)],
            "hiccup": [("silence", begin), ("answer", answers)],
            "elect": [("elect", begin)],
        }[kind]
        for order, step in [*orders, ("rebalance", deed.back + self.draw.randint(1, 60 * S))]:
            self.orders.setdefault(step, []).append((order, deed))
        return deed

    def _silence(self, deed: Deed, step: int) -> None:
        self.silent[deed.broker] = "silent" if deed.kind in ("freeze", "hiccup") else "refuses"

    def _answer(self, deed: Deed, step: int) -> None:
        self.silent.pop(deed.broker, None)

    def _depose(self, deed: Deed, step: int) -> None:
        held = [key for key, isr in self.isr.items() if deed.broker in isr]
        led = [key for key in held if self.leader[key] == deed.broker and self._was_seen_to_lead(deed.broker, key)]
        deed.led = bool(led)
        for topic, number in sorted(led or held):
            deed.hit.setdefault(topic, []).append(number)
        deed.shows = bool(held) and (deed.led or deed.kind != "cut_off")
        for key in held:
            self._leave(key, deed.broker)

    def _was_seen_to_lead(self, broker: int, key: Partition) -> bool:
        """A leader that was elected and deposed between two looks led nothing, as seen from outside."""
        known = self._known.get(key)
        return isinstance(known, tuple) and known[0] == broker

    def _leave(self, key: Partition, broker: int) -> None:
        rest = self.isr[key] - {broker}
        if self.leader[key] == broker:
            self.epoch[key] += 1
            self.leader[key] = self.draw.choice(sorted(rest)) if rest else -1
        self.isr[key] = rest or self.isr[key]

    def _lag(self, deed: Deed, step: int) -> None:
        follows = [
            key for key, isr in self.isr.items() if deed.broker in isr and self.leader[key] not in (deed.broker, -1)
        ]
        for key in follows[:1]:
            self.isr[key].discard(deed.broker)

    def _elect(self, deed: Deed, step: int) -> None:
        for key, isr in self.isr.items():
            able = sorted(isr - self.silent.keys() - {self.leader[key]})
            if self.leader[key] == deed.broker and able and not self._leaves_soon(deed.broker, step):
                self.leader[key], self.epoch[key] = self.draw.choice(able), self.epoch[key] + 1

    def _rejoin(self, deed: Deed, step: int) -> None:
        for key, brokers in self.replicas.items():
            if deed.broker in brokers:
                if self.leader[key] < 0 and deed.broker in self.isr[key]:
                    self.leader[key], self.epoch[key] = deed.broker, self.epoch[key] + 1
                    self.isr[key] |= set(brokers) - self._out(step)
                elif self.leader[key] >= 0:
                    self.isr[key].add(deed.broker)

    def _rebalance(self, deed: Deed, step: int) -> None:
        for key, first in self.first.items():
            leader = self.leader[key]
            can_lead = first in self.isr[key] and first not in self._out(step)
            if can_lead and leader not in (first, -1) and not self._leaves_soon(leader, step):
                self.leader[key], self.epoch[key] = first, self.epoch[key] + 1

    def _leaves_soon(self, broker: int, step: int) -> bool:
        """Whether `broker` leaves an ISR within a second. A leader that moves just before is an orderly stop to all who
        look from outside, whatever the reason was."""
        until = step + OBSERVER_LAG_US // STEP_US
        return any(
            deed.broker == broker and step <= (deed.begin if deed.kind == "lag" else deed.deposed) <= until + 1
            for deed in self.deeds
        )

    def _out(self, step: int) -> set[int]:
        return {each.broker for each in self.deeds if each.begin <= step < each.back}

    def _note_recovery(self, step: int) -> None:
        whole = all(self.isr[key] == set(brokers) for key, brokers in self.replicas.items())
        for key, leader in self.leader.items():
            if step <= LOAD[0] or self.at_load[key] < 0:
                self.at_load[key] = leader
        is_over = whole and self.leader == self.at_load
        for deed in self.deeds:
            in_sync = all(deed.broker in self.isr[key] for key, held in self.replicas.items() if deed.broker in held)
            if deed.healed is None and step >= deed.back and in_sync:
                deed.healed = step
            if is_over and deed.healed is not None and deed.recovered is None:
                deed.recovered = step
            elif not is_over and deed.recovered is not None and deed.recovered > step - S:
                deed.recovered = None  # whole for less than a second

    def _look(self, step: int) -> None:
        at_us = step * STEP_US
        for broker in BROKERS:
            state = self.silent.get(broker, "answers")
            if self._known.get(broker) != state:
                self._known[broker] = state
                pause_us = at_us - self._answered[broker] * STEP_US
                self.seen.append(
                    Observation(at_us=at_us, kind="answers", broker=broker, state=state, pause_us=pause_us)
                )
            if state == "answers":
                self._answered[broker] = step
        for key in self.replicas:
            known = self.leader[key], self.epoch[key], sorted(self.isr[key])
            if self._known.get(key) != known:
                self._known[key] = known
                fields = dict(zip(("leader", "leader_epoch", "isr"), known, strict=True))
                self.seen.append(
                    Observation(at_us=at_us, kind="partition", topic=key[0], partition=key[1], **fields)  # type: ignore[arg-type]
                )

    def derived(self) -> list[Injection]:
        outside = Outside(
            replicas={key: frozenset(brokers) for key, brokers in self.replicas.items()},
            load_us=(LOAD[0] * STEP_US, LOAD[1] * STEP_US),
            session_us=SESSION * STEP_US,
            lag_us=SESSION * STEP_US,
        )
        return injections_from_outside(self.seen, outside)


def _us(step: int | None) -> int | None:
    return None if step is None else step * STEP_US


def _check_derived(life: Life) -> None:
    """The injections are exactly what was done while the load flowed."""
    done = [deed for deed in life.deeds if deed.shows and deed.first_sign > LOAD[0] and deed.deposed < LOAD[1]]
    found = sorted(life.derived(), key=lambda each: (each.healed_at_us or NEVER_US, each.brokers))
    truth = sorted(done, key=lambda deed: (_us(deed.healed) or NEVER_US, [deed.broker]))
    assert [(each.brokers, each.hit, each.led) for each in found] == [
        ([deed.broker], deed.hit, deed.led) for deed in truth
    ], (found, life.deeds)
    for injection, deed in zip(found, truth, strict=True):
        assert (injection.healed_at_us, injection.recovered_at_us) == (_us(deed.healed), _us(deed.recovered))
        begin_us = deed.begin * STEP_US
        assert begin_us - (SESSION + 2 * S) * STEP_US <= injection.effect_at_us <= begin_us + 2 * STEP_US


def _check_unplanned(life: Life) -> None:
    """A lag of a broker that nobody touched stays unplanned, also beside an outage of another that led nothing."""
    injections = life.derived()
    out = {broker for each in injections for broker in each.brokers}
    unplanned = {each.at_us for each in disturbances(life.seen, injections) if not each.planned}
    for deed in life.deeds:
        at_us = deed.begin * STEP_US
        held = {number for (_, number), brokers in life.replicas.items() if deed.broker in brokers}
        seen = [it for it in life.seen if it.at_us == at_us and it.partition in held and deed.broker not in it.isr]
        if deed.kind == "lag" and deed.broker not in out and seen and not out & {it.leader for it in seen}:
            assert at_us in unplanned, deed


def _check_planned(life: Life) -> None:
    """All that is unplanned has a cause that takes no broker out, or that lies outside of the load."""
    injections = life.derived()
    derived = {(each.brokers[0], each.healed_at_us) for each in injections}
    others = [deed for deed in life.deeds if (deed.broker, _us(deed.healed)) not in derived]
    for each in disturbances(life.seen, injections):
        if each.kind == "unclean_election":  # a broker that rejoined and was elected between two looks
            continue
        near = [deed for deed in others if deed.begin * STEP_US <= each.at_us <= (deed.back + 61 * S) * STEP_US]
        assert each.planned or near or life.at_load != life.first, each


def test_the_injections_of_random_lives_are_exactly_what_was_done_and_explain_nothing_else() -> None:
    first = in_this_round(0)
    for seed in range(first, first + COUNT):
        life = Life(seed)
        try:
            _check_derived(life)
            _check_unplanned(life)
            _check_planned(life)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


def test_an_observer_that_pauses_accuses_nobody_who_was_not_touched() -> None:
    first = in_this_round(0)
    for seed in range(first, first + COUNT):
        life = Life(seed, gaps=True)
        touched = {deed.broker for deed in life.deeds if deed.kind not in ("hiccup", "elect")}
        derived = life.derived()
        assert {each.brokers[0] for each in derived} <= touched, f"seed {seed}"
        assert all(len(each.brokers) == 1 for each in derived), f"seed {seed}"


def test_the_lives_have_all_that_can_happen() -> None:
    deeds = [deed for seed in range(40) for deed in Life(seed).deeds]
    assert {deed.kind for deed in deeds} == {"kill", "stop", "freeze", "cut_off", "lag", "hiccup", "elect"}
    assert sum(deed.shows for deed in deeds) > 60 and any(deed.recovered is None for deed in deeds)
    assert HICCUP_US >= 15 * STEP_US
