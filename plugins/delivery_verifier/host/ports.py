"""Chooses free loopback ports for servers.

A server does not listen on its port at once. It starts later, and after a fault it starts again on the same port.
"""

from __future__ import annotations

import socket
from pathlib import Path
from random import SystemRandom

LOOPBACK = "127.0.0.1"
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000


def free_ports(count: int) -> list[int]:
    """Returns `count` different loopback ports on which no process listens now.

    Linux takes the local ports of outgoing connections from a certain range. The returned ports lie below this range.
    So no connection takes the port of a server while the server is down. If there are too few ports below the range,
    Linux chooses the ports.
    """
    highest = int(_EPHEMERAL.read_text().split()[0])
    candidates = SystemRandom().sample(range(_LOWEST, highest), highest - _LOWEST) if highest > 2 * _LOWEST else []
    sockets = list[socket.socket]()
    try:
        while len(sockets) < count:
            sockets.append(socket.socket())
            try:
                sockets[-1].bind((LOOPBACK, candidates.pop() if candidates else 0))
            except OSError:  # the port is taken
                sockets.pop().close()
                if not candidates:
                    raise
        return [int(bound.getsockname()[1]) for bound in sockets]
    finally:
        for bound in sockets:
            bound.close()
