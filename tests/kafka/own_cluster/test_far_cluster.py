"""A cluster that is far away: with 200 ms for each round trip, the check still ends in time, and knows everything."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import pytest
from support.secured_cluster import BROKERS, SecuredCluster

from delivery_verifier.cluster.check import cluster_check
from delivery_verifier.cluster.check.rights import RIGHTS, Wanted
from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.protocol import channels
from delivery_verifier.cluster.security.reading import Access

ONE_WAY_S = 0.1


def forward(source: socket.socket, target: socket.socket) -> None:
    """Forwards all bytes, each piece as late as a network of that length would."""
    try:
        while data := source.recv(65536):
            time.sleep(ONE_WAY_S)  # the latency itself, and no wait for anything
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        end.close()


def far(address: Address, timeout: float) -> socket.socket:
    """Connects to `address` through a network of 200 ms."""
    time.sleep(2 * ONE_WAY_S)
    broker = CONNECT(address, timeout=timeout)
    mine, others = socket.socketpair()
    for ends in ((others, broker), (broker, others)):
        threading.Thread(target=forward, args=ends, daemon=True).start()
    return mine


CONNECT = socket.create_connection


class FarSockets:
    """The module `socket`, with a long way to every address."""

    IPPROTO_TCP, TCP_NODELAY = socket.SOL_SOCKET, socket.SO_KEEPALIVE  # a pair of sockets has no TCP
    create_connection = staticmethod(far)
    socket = socket.socket


def test_a_far_cluster_is_checked_in_time_and_nothing_stays_unknown(
    secured: SecuredCluster, access: Callable[[dict[str, str]], Access], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = access(secured.properties("operator"))
    monkeypatch.setattr(channels, "socket", FarSockets)
    checked = cluster_check.check(
        reading, RIGHTS, lambda brokers: {"kdv-t": Wanted({"retention.ms": "-1"}, [list(brokers)])}
    )
    assert checked.took_s < cluster_check.WITHIN_S
    assert {answer.standing for answer in checked.rights} == {"granted"}
    assert checked.settings is not None and checked.created["kdv-t"] is not None
    assert (sorted(checked.software), checked.unreached) == ([*BROKERS], ())
    assert all(each.round_trip_s > ONE_WAY_S for each in checked.software.values())
    print(f"checked in {checked.took_s:.1f} s")
