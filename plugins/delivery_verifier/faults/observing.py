"""The action `observe`: somebody else breaks brokers, and the run watches.

Nothing is done here. The load flows for its planned time, and what the observer writes down meanwhile says who was
taken out (see `contract.outside`).
"""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.contract.outside import HICCUP_US, Outside, injections_from_outside
from delivery_verifier.faults import sightings
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.external_cluster import LAG, REBALANCE, RETURN_S, SESSION
from delivery_verifier.model.history import Injection, now_us
from delivery_verifier.model.scenario import Scenario

_log = logging.getLogger(__name__)
WAITS = "began to wait for somebody to break a broker"
"""What people read while nothing has happened yet."""
BEFORE_THE_END_S = 20.0
"""How many seconds before the deadline of the load a wait ends. The load must end before its own deadline."""
_EVERY_S = 0.5


class Watch:
    """Watches the cluster of one run while its load flows. `check_load` raises an error if the load has failed.
    `listener` is called with a text for people and its time (µs since the epoch)."""

    def __init__(
        self,
        cluster: Cluster,
        scenario: Scenario,
        load: RunningLoad,
        check_load: Callable[[], object],
        listener: Callable[[str, int], None],
    ) -> None:
        self._cluster, self._scenario, self._load = cluster, scenario, load
        self._check_load, self._listener = check_load, listener
        self._topics = [arm.topic_name for arm in scenario.arms]

    def injections(self) -> list[Injection]:
        """Watches for as long as the load is planned to last, and then until every broker that was taken out is back,
        and leads again what it led. Returns the injections that follow from what was seen.

        If this takes longer than RETURN_S, or than the load may last, goes on all the same: the injections then have no
        time of recovery. Raises DeadlinePassed if the load does not begin.
        """
        load, began_s = self._scenario.load, time.monotonic()
        outside = self._outside(self._await_load())
        self._await_questions(outside.load_us[0])
        self._listener(WAITS, now_us())
        shown = list[Injection]()

        def is_over() -> bool:
            self._check_load()
            derived = _derived(self._cluster, outside)
            for injection in derived[len(shown) :]:
                shown.append(injection)
                self._listener(f"broker {injection.brokers[0]} was taken out", injection.effect_at_us)
            lasted = time.monotonic() - began_s >= load.duration_s
            whole = all(injection.recovered_at_us is not None for injection in derived)
            return lasted and whole and self._cluster.isr_full(self._topics)

        deadline_s = min(load.duration_s + RETURN_S, load.deadline_s - BEFORE_THE_END_S)
        try:
            wait_until(is_over, "every broker to be back, and to lead what it led", deadline_s, every_s=_EVERY_S)
        except DeadlinePassed as error:
            _log.warning("%s %s", error, self._cluster.out_of_sync(self._topics))
        return _derived(self._cluster, outside)

    def _await_load(self) -> int:
        """Waits until every subject has reported a record of the load. Returns the time (µs since the epoch)."""
        before = self._load.reported()

        def flows() -> bool:
            self._check_load()
            return self._load.reported() > before or bool(self._load.ended_early())

        wait_until(flows, "the load to flow before somebody breaks a broker", self._scenario.load.deadline_s)
        return now_us()

    def _await_questions(self, began_us: int) -> None:
        """Waits until each broker has answered a question that was asked after `began_us`, on a busy host, too.

        A broker that is broken may have been out since the last question that it answered. If that is older than the
        load, the fault may be, too, and is none that was watched: so nobody is told to break a broker before.
        """

        def are_asked() -> bool:
            self._check_load()
            return now_us() - began_us >= HICCUP_US

        wait_until(are_asked, "the observer to have asked every broker", 2 * HICCUP_US / 1e6)

    def _outside(self, began_us: int) -> Outside:
        external = self._scenario.cluster.external
        settings = (external.settings if external is not None else None) or {}
        loaded = [arm.topic_name for arm in self._scenario.loaded]
        usual = Outside(
            replicas={key: frozenset(state.replicas) for key, state in self._cluster.partitions(loaded).items()},
            load_us=(began_us, began_us),
            leaders_return=settings.get(REBALANCE, "true") != "false",
            silence_counts=has_own_addresses(self._cluster.connection),
        )
        return replace(
            usual,
            session_us=_us(settings.get(SESSION), usual.session_us),
            lag_us=_us(settings.get(LAG), usual.lag_us),
        )


def has_own_addresses(connection: Connection) -> bool:
    """Returns whether no two brokers are reached at one address. If they are, e.g. behind a load balancer that tells
    them apart by name, an address that does not answer says nothing of a single broker."""
    reached = Counter[object]()
    for address in connection.brokers.values():
        try:
            resolved = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except OSError:
            return False  # it is not known whether others have the same address
        reached.update({each[4][:2] for each in resolved})
    return all(count == 1 for count in reached.values())


def _us(text: str | None, default_us: int) -> int:
    return int(text) * 1000 if text is not None and text.isdecimal() else default_us


def _derived(cluster: Cluster, outside: Outside) -> list[Injection]:
    until_now = replace(outside, load_us=(outside.load_us[0], now_us()))
    return injections_from_outside(sightings.observations(cluster), until_now)
