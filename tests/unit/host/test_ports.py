"""Tests of free ports: servers that start later find them free."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from delivery_verifier.host import ports
from delivery_verifier.host.ports import free_ports


def test_no_connection_of_this_host_is_given_one_of_them() -> None:
    """A broker that is down must find its port free when it comes back."""
    lowest_of_a_connection = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    chosen = free_ports(40)
    assert len(set(chosen)) == 40 and max(chosen) < lowest_of_a_connection


def test_a_taken_port_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    (taken, free) = free_ports(2)
    monkeypatch.setattr(ports.SystemRandom, "sample", lambda *_: [free, taken])
    with socket.socket() as listener:
        listener.bind((ports.LOOPBACK, taken))
        listener.listen()
        assert free_ports(1) == [free]


def test_where_connections_may_have_every_port_linux_chooses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    everything = tmp_path / "range"
    everything.write_text("1024\t65535\n")
    monkeypatch.setattr(ports, "_EPHEMERAL", everything)
    assert len(set(free_ports(5))) == 5
