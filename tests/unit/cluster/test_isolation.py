"""Tests of isolation, which cuts a broker off from the network. Each kind of link stands for certain packets. A rule
that the kernel does not have counts as no isolation."""

from __future__ import annotations

from pathlib import Path

import pytest

from delivery_verifier.cluster.embedded import packet_filter
from delivery_verifier.cluster.embedded.isolation import Isolation, rules
from delivery_verifier.cluster.embedded.packet_filter import Chain, FilterError, FilterRule
from delivery_verifier.cluster.layout import ClusterLayout
from delivery_verifier.host.processes import myself
from delivery_verifier.model.act import Link
from delivery_verifier.model.scenario import ClusterSpec

LAYOUT = ClusterLayout(
    workspace="/ws",
    spec=ClusterSpec(),
    controller_port=100,
    client_ports={1: 11, 2: 12, 3: 13},
    replication_ports={1: 21, 2: 22, 3: 23},
)


def test_each_link_is_cut_in_both_directions_and_no_other_brokers_packets_are_dropped() -> None:
    assert matches("controller") == ["-m owner --gid-owner 22002 -m tcp --dport 100"]
    assert matches("replication") == [
        "-m owner --gid-owner 22002 -m tcp --dport 21",
        "-m owner --gid-owner 22002 -m tcp --dport 23",
        "-m tcp --dport 22",
        "-m tcp --sport 22",
    ]
    assert matches("client") == ["-m tcp --dport 12", "-m tcp --sport 12"]
    assert [rule.name for rule in rules(LAYOUT, 1, ["controller", "client"])] == [
        "1.controller",
        "1.client",
        "1.client",
    ]


def matches(link: Link) -> list[str]:
    return [rule.match for rule in rules(LAYOUT, 2, [link])]


def test_a_rule_drops_tcp_and_is_named_in_the_kernel() -> None:
    assert (
        str(FilterRule("1.client", "-m tcp --dport 11"))
        == "-p tcp -m tcp --dport 11 -m comment --comment 1.client -j DROP"
    )


TABLE = """*filter
:OUTPUT ACCEPT [9:9]
:kdv-abcdefgh-1-2 - [0:0]
[12:720] -A OUTPUT -o lo -p tcp -j kdv-abcdefgh-1-2
[3:180] -A kdv-abcdefgh-1-2 -p tcp -m owner --gid-owner 22001 -m tcp --dport 100 -m comment \
--comment "1.controller" -j DROP
[4:240] -A kdv-abcdefgh-1-2 -p tcp -m tcp --dport 11 -m comment --comment 1.client -j DROP
[5:300] -A kdv-abcdefgh-1-2 -p tcp -m tcp --sport 11 -m comment --comment 1.client -j ACCEPT
COMMIT
"""


def test_packets_are_counted_per_rule_that_drops_and_none_if_nothing_leads_to_the_chain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain = Chain("kdv-abcdefgh-1-2")
    monkeypatch.setattr(packet_filter, "_save", lambda: TABLE)
    assert chain.dropped() == [("1.controller", 3), ("1.client", 4)]
    monkeypatch.setattr(packet_filter, "_save", lambda: TABLE.replace("-A OUTPUT", "-A INPUT"))
    assert chain.dropped() == []


def test_a_link_counts_as_cut_only_while_the_kernel_has_all_of_its_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    isolation = Isolation(LAYOUT, "abcdefgh")
    there: list[tuple[str, int]] = []
    monkeypatch.setattr(Chain, "add", lambda self, added: there.extend((rule.name, 2) for rule in added))
    monkeypatch.setattr(Chain, "dropped", lambda self: there)
    isolation.cut(1, ["controller", "client"])
    assert isolation.dropped() == {1: {"controller": 2, "client": 4}}
    there.remove(("1.client", 2))
    assert isolation.dropped() == {1: {"controller": 2}}
    with pytest.raises(ValueError, match="broker 1 is cut off already"):
        isolation.cut(1, ["controller"])
    monkeypatch.setattr(Chain, "remove", lambda self, gone: None)
    with pytest.raises(FilterError, match="broker 1 is still cut off"):
        isolation.restore(1)


def test_the_chain_goes_at_the_end_also_after_all_was_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    isolation, gone = Isolation(LAYOUT, "abcdefgh"), list[str]()
    for name, does in {"add": lambda *_: None, "remove": lambda *_: None, "dropped": lambda _: []}.items():
        monkeypatch.setattr(Chain, name, does)
    monkeypatch.setattr(Chain, "destroy", lambda self: gone.append(self.name))
    isolation.end()
    assert gone == []
    isolation.cut(1, ["controller"])
    isolation.restore(1)
    isolation.end()
    assert len(gone) == 1


def test_a_chain_is_known_for_dead_once_its_process_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Chain.own("abcdefgh")
    assert own.alive and own.name.startswith(f"kdv-abcdefgh-{myself().pid:x}-")
    assert len(Chain(f"kdv-abcdefgh-{4194304:x}-{2**32 - 1:x}").name) == 28  # the longest that iptables takes
    table = f"*filter\n:OUTPUT ACCEPT [0:0]\n:DOCKER - [0:0]\n:{own.name} - [0:0]\n:kdv-hgfedcba-1-2 - [0:0]\nCOMMIT\n"
    monkeypatch.setattr(packet_filter, "_save", lambda: table)
    assert packet_filter.abandoned() == [Chain("kdv-hgfedcba-1-2")]


def test_where_there_is_no_packet_filter_nothing_was_left_in_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert packet_filter.sweep() == []
