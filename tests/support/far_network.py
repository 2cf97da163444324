"""A network of a given length: what goes through its doors arrives later, in both directions, and nothing is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from delivery_verifier.host.waiting import wait_until
from support.patience import PATIENCE_S


class _Late(asyncio.Protocol):
    """One end of a connection: what it gets leaves at the other end `later_s` seconds later."""

    def __init__(self, later_s: float) -> None:
        self.later_s = later_s
        self.other: _Late | None = None
        self.transport: asyncio.Transport | None = None
        self.connecting: asyncio.Task[None] | None = None
        """Kept here, because a loop keeps only weak references to its tasks."""
        self.early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        for data in self.early:
            transport.write(data)

    def data_received(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(self.later_s, self._arrives, data)

    def _arrives(self, data: bytes) -> None:
        assert self.other is not None
        if self.other.transport is None:
            self.other.early.append(data)
        elif not self.other.transport.is_closing():
            self.other.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            asyncio.get_running_loop().call_later(self.later_s, self.other.transport.close)


def _door(port: int, one_way_s: float) -> asyncio.Protocol:
    client, broker = _Late(one_way_s), _Late(one_way_s)
    client.other, broker.other = broker, client

    async def connect() -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: broker, "127.0.0.1", port)
        except OSError:
            if client.transport is not None:
                client.transport.close()

    client.connecting = asyncio.get_running_loop().create_task(connect())
    return client


@contextmanager
def far_network(ports: Mapping[int, int], one_way_s: float) -> Iterator[None]:
    """Listens on the keys of `ports`, and forwards to the values, each way `one_way_s` seconds later."""
    loop, servers = asyncio.new_event_loop(), list[asyncio.Server]()

    async def listen() -> None:
        for door, port in ports.items():
            servers.append(await loop.create_server(lambda port=port: _door(port, one_way_s), "127.0.0.1", door))

    thread = threading.Thread(target=loop.run_forever, name="far network", daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(listen(), loop).result(PATIENCE_S)
    try:
        yield
    finally:
        for server in servers:
            loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        wait_until(lambda: not loop.is_running(), "the far network to end", PATIENCE_S)
