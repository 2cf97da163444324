"""The lease of the fault door: the right of one run to damage containers. When it ends, the door heals.

The door looks at the containers themselves to see what has to be healed, and remembers nothing. So a door that was
killed heals at its next start.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from delivery_verifier.cluster.docker.engine import Engine, EngineError, Refusal
from delivery_verifier.cluster.docker.nodes import Node, NotANode
from delivery_verifier.model.errors import VerifierError

LONGEST_LEASE_S = 300.0
CHECK_EVERY_S = 0.2
"""Seconds between two looks at the lease. After a failed attempt to heal, the door tries again as often."""


class Lease(NamedTuple):
    """The right of one run to damage containers. `seconds`: how long it lasts after each renewal. `ends_at_s`: its end
    on the monotonic clock."""

    id: str
    holder: str
    seconds: float
    ends_at_s: float


class Conflict(VerifierError, RuntimeError):
    """A request does not fit the lease that runs, or needs a lease that does not run."""


class LeasedEngine:
    """Carries out operations under a lease, and heals when there is none. Changes go one after the other."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lease: Lease | None = None
        self._to_heal = True
        self._changes = asyncio.Lock()

    async def nodes(self) -> list[Node]:
        """Returns the nodes in all containers with the door's labels."""
        return await self._engine.nodes()

    async def begin(self, holder: str, seconds: float) -> str:
        """Heals, and returns the id of a new lease. Raises Conflict while another lease runs."""
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
        """Extends the lease. Raises Conflict if this lease does not run."""
        lease = self._running(lease_id)
        self._lease = lease._replace(ends_at_s=time.monotonic() + lease.seconds)

    async def end(self, lease_id: str) -> list[str]:
        """Ends the lease, and heals. Returns in words what was damaged. Raises Conflict if this lease does not run."""
        async with self._changes:
            self._running(lease_id)
            self._lease, self._to_heal = None, True
            return await self._heal()

    async def heal(self) -> list[str]:
        """Heals. Returns in words what was damaged. Raises Conflict while a lease runs."""
        async with self._changes:
            self._end_if_over()
            if self._lease is not None:
                raise Conflict(f"{self._lease.holder} holds the lease")
            return await self._heal()

    async def carry_out(self, lease_id: str, container: str, operation: str, options: Mapping[str, Any]) -> None:
        """Carries out an operation. Raises Conflict if this lease does not run."""
        async with self._changes:
            self._running(lease_id)
            await self._engine.carry_out(container, operation, options)

    async def watch(self) -> None:
        """Heals at the start, and whenever a lease has run out. Never returns."""
        while True:
            async with self._changes:
                self._end_if_over()
                if self._to_heal and self._lease is None:
                    try:
                        await self._heal()
                    except (EngineError, NotANode) as error:
                        log(f"cannot heal yet: {error}")
            await asyncio.sleep(CHECK_EVERY_S)

    async def _heal(self) -> list[str]:
        damage = await self._engine.heal()
        self._to_heal = False
        for line in damage:
            log(f"healed: {line}")
        return damage

    def _end_if_over(self) -> None:
        if self._lease is not None and time.monotonic() > self._lease.ends_at_s:
            log(f"nobody renewed the lease of {self._lease.holder} for {self._lease.seconds:g} s")
            self._lease, self._to_heal = None, True

    def _running(self, lease_id: str) -> Lease:
        self._end_if_over()
        if self._lease is None or not hmac.compare_digest(self._lease.id, lease_id):
            raise Conflict("this lease does not run: it has ended, or the door was started anew")
        return self._lease


def log(line: str) -> None:
    """Writes a line into the log of the door, which is the standard output of its process."""
    print(f"door: {line}", flush=True)
