"""The lease of the fault gateway: the right of one run to damage containers. When the lease ends, the fault gateway
heals the containers.

The fault gateway stores nothing. It looks at the containers to see which of them have to be healed. So a fault gateway
that was killed heals the containers at its next start. A container that was asked to stop may exit after the end of the
lease. So the fault gateway keeps looking at the containers for some time after each lease.
"""

from __future__ import annotations

import asyncio
import hmac
import math
import secrets
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from delivery_verifier.cluster.docker.engine import Engine, EngineError, Refusal
from delivery_verifier.cluster.docker.nodes import Node, NotANode
from delivery_verifier.model.errors import VerifierError

LONGEST_LEASE_S = 300.0
CHECK_EVERY_S = 0.2
"""Seconds between two checks of the lease. Also the seconds after which a failed attempt to heal is repeated."""
WATCH_S, LOOK_EVERY_S = 60.0, 3.0
"""WATCH_S: how many seconds the gateway goes on healing the containers after its start, and after the end of each
lease. LOOK_EVERY_S: seconds between two looks at the containers in this time."""


class Lease(NamedTuple):
    """The right of one run to damage containers.

    * `holder`: the run that holds the lease.
    * `seconds`: how long the lease lasts after each renewal.
    * `ends_at_s`: the end of the lease on the monotonic clock.
    """

    id: str
    holder: str
    seconds: float
    ends_at_s: float


class Conflict(VerifierError, RuntimeError):
    """A request conflicts with a lease: another lease runs, or the lease that the request names does not run."""


class LeasedEngine:
    """Carries out operations on containers as long as a lease runs, and heals the containers when the lease has ended.

    Never makes two changes at the same time.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lease: Lease | None = None
        self._watch()
        self._changes = asyncio.Lock()

    async def nodes(self) -> list[Node]:
        """Returns the nodes in all containers with the labels that the fault gateway looks for."""
        return await self._engine.nodes()

    async def begin(self, holder: str, seconds: float) -> str:
        """Heals the containers, and returns the id of a new lease. Raises Conflict if another lease runs."""
        if not 0 < seconds <= LONGEST_LEASE_S:
            raise Refusal(f"a lease lasts up to {LONGEST_LEASE_S:g} s")
        async with self._changes:
            self._end_if_over()
            if self._lease is not None:
                raise Conflict(f"{self._lease.holder} holds the lease")
            await self._heal()
            lease = Lease(secrets.token_hex(8), holder, seconds, time.monotonic() + seconds)
            self._lease = lease
        return lease.id

    def renew(self, lease_id: str) -> None:
        """Extends the lease with the id `lease_id`. Raises Conflict if this lease does not run."""
        lease = self._running(lease_id)
        self._lease = lease._replace(ends_at_s=time.monotonic() + lease.seconds)

    async def end(self, lease_id: str) -> list[str]:
        """Ends the lease with the id `lease_id`, and heals the containers. Returns in words what was damaged.

        Raises Conflict if this lease does not run.
        """
        async with self._changes:
            self._running(lease_id)
            self._lease = None
            self._watch()
            return await self._heal()

    async def heal(self) -> list[str]:
        """Heals the containers. Returns in words what was damaged. Raises Conflict if a lease runs."""
        async with self._changes:
            self._end_if_over()
            if self._lease is not None:
                raise Conflict(f"{self._lease.holder} holds the lease")
            return await self._heal()

    async def carry_out(self, lease_id: str, container: str, operation: str, options: Mapping[str, Any]) -> None:
        """Carries out an operation on a container. Raises Conflict if the lease with the id `lease_id` does not run."""
        async with self._changes:
            self._running(lease_id)
            await self._engine.carry_out(container, operation, options)

    async def watch(self) -> None:
        """Heals the containers at the start and after the end of each lease. Never returns.

        Looks at the containers again for 60 s (WATCH_S) after the start and after the end of each lease.
        """
        complaint = ""
        while True:
            async with self._changes:
                self._end_if_over()
                if self._lease is None and time.monotonic() >= self._look_at_s:
                    try:
                        await self._heal()
                        complaint = ""
                    except (EngineError, NotANode) as error:
                        if complaint != str(error):
                            log(f"cannot heal yet: {error}")
                        complaint = str(error)
            await asyncio.sleep(CHECK_EVERY_S)

    def _watch(self) -> None:
        """Makes the task `watch` heal the containers now, and look at them again for 60 s (WATCH_S)."""
        self._look_at_s = time.monotonic()
        self._watch_ends_at_s = self._look_at_s + WATCH_S

    async def _heal(self) -> list[str]:
        damage = await self._engine.heal()
        now_s = time.monotonic()
        self._look_at_s = now_s + LOOK_EVERY_S if now_s < self._watch_ends_at_s else math.inf
        for line in damage:
            log(f"healed: {line}")
        return damage

    def _end_if_over(self) -> None:
        if self._lease is not None and time.monotonic() > self._lease.ends_at_s:
            log(f"nobody renewed the lease of {self._lease.holder} for {self._lease.seconds:g} s")
            self._lease = None
            self._watch()

    def _running(self, lease_id: str) -> Lease:
        if not lease_id.isascii():
            raise Refusal("the id of a lease has no such characters")
        self._end_if_over()
        if self._lease is None or not hmac.compare_digest(self._lease.id, lease_id):
            raise Conflict("this lease does not run: it has ended, or the gateway was started anew")
        return self._lease


def log(line: str) -> None:
    """Writes a line into the log of the fault gateway, which is the standard output of this process."""
    print(f"gateway: {line}", flush=True)
