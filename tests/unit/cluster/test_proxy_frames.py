"""Tests of the proxy without sockets. It finds the frames (Kafka's requests and responses) wherever the network cut the
stream. Its rules act as they are defined, in their order."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.fake_cluster import FakeCluster

from delivery_verifier.catalogue import ENTRIES
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.messages import encoded
from delivery_verifier.cluster.proxy.flows import UNTIL_RELEASED, Closed, Conversation, Flow
from delivery_verifier.cluster.proxy.frames import NotKafka, Splitter, TransactionEnd, request_of, transaction_end_of
from delivery_verifier.cluster.proxy.rules import BEGIN_BYTES, LONG_BYTES, ProxyRule, RuleBook, rule_of
from delivery_verifier.faults.action import ActionContext, Done
from delivery_verifier.faults.actions import ACTIONS
from delivery_verifier.faults.proxied import Frames
from delivery_verifier.model.act import APIS
from delivery_verifier.model.fault_actions import ACTS

PRODUCE, METADATA = APIS["Produce"], APIS["Metadata"]


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request(
    correlation: int, api: int = METADATA, client: str | None = "one", version: int = 9, rest: bytes = b"\0"
) -> bytes:
    name = b"" if client is None else client.encode()
    head = struct.pack(">hhih", api, version, correlation, -1 if client is None else len(name))
    return framed(head + name + rest)


def produce(
    correlation: int, acks: int = -1, client: str = "one", transactional: str | None = None, version: int = 10
) -> bytes:
    """Returns a Produce request.

    From version 9 on, such a request has the flexible format of KIP-482: a tag section stands before the
    transactional.id, and a varint holds its length plus one.
    """
    name = (transactional or "").encode()
    if version >= 9:
        length = 0 if transactional is None else len(name) + 1
        text = bytes([length & 0x7F | 0x80, length >> 7]) if length > 0x7F else bytes([length])
        before = b"\0" + text + name
    else:
        before = struct.pack(">h", -1 if transactional is None else len(name)) + name
    return request(correlation, PRODUCE, client, version, before + struct.pack(">hi", acks, 30_000) + b"records")


def response(correlation: int, body: bytes = b"fine") -> bytes:
    return framed(struct.pack(">i", correlation) + body)


@given(st.lists(st.binary(min_size=4, max_size=300), max_size=8), st.data())
def test_frames_are_the_same_however_the_stream_is_cut(bodies: list[bytes], data: st.DataObject) -> None:
    frames = [framed(body) for body in bodies]
    stream, splitter, found = b"".join(frames), Splitter(), list[bytes]()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += splitter.feed(stream[begin:end])
    assert found == frames


@pytest.mark.parametrize("size", [-1, 3, 1 << 30])
def test_a_size_that_no_frame_has_is_refused(size: int) -> None:
    with pytest.raises(NotKafka):
        Splitter().feed(struct.pack(">i", size) + b"GET / HTTP/1.1")


@given(st.binary(min_size=4, max_size=60))
def test_any_bytes_are_a_request_or_refused(body: bytes) -> None:
    with suppress(NotKafka):
        assert isinstance(request_of(framed(body)).answered, bool)


@pytest.mark.parametrize("version", [3, 8, 9, 12])
@pytest.mark.parametrize("transactional", [None, "", "mine", "m" * 200])
def test_only_a_produce_request_with_acks_0_gets_no_response(version: int, transactional: str | None) -> None:
    for acks in (-1, 0, 1):
        found = request_of(produce(7, acks, transactional=transactional, version=version))
        assert (found.api, found.correlation, found.client, found.answered) == (PRODUCE, 7, "one", acks != 0)
    assert request_of(request(8, client=None)).answered


class Talk:
    """A conversation between a client and a broker through the proxy, with the given rules."""

    def __init__(self, *rules: ProxyRule) -> None:
        self.book = RuleBook()
        for rule in rules:
            self.book.put(rule)
        self.talk = Conversation(1, self.book)

    def exchange(self, *correlations: int, api: int = PRODUCE, client: str = "one") -> tuple[bytes, bytes]:
        """Sends each request and, if the broker received it, a response. Returns all bytes that the broker has
        received, and all bytes that the client has received."""
        for correlation in correlations:
            frame = produce(correlation, client=client) if api == PRODUCE else request(correlation, api, client)
            self.talk.from_client(frame, 0.0)
            if bytes(self.talk.requests.out).endswith(frame):
                self.talk.from_broker(response(correlation), 0.0)
        return bytes(self.talk.requests.out), bytes(self.talk.responses.out)


def test_without_a_rule_everything_passes_as_it_came() -> None:
    requests, responses = Talk().exchange(1, 2, 3)
    assert requests == b"".join(produce(one) for one in (1, 2, 3))
    assert responses == b"".join(response(one) for one in (1, 2, 3))


def test_drop_swallows_what_it_is_told_to_and_nothing_else() -> None:
    rule = ProxyRule(action="drop", brokers=(1,), nth=2, count=1)
    talk = Talk(rule)
    talk.exchange(1, 2, 3)
    _, responses = talk.exchange(4, api=METADATA)
    assert responses == response(1) + response(3) + response(4)
    assert talk.book.hits(rule) == {"1": {"one": 1}}


def test_a_dropped_request_reaches_nobody_and_waits_for_no_response() -> None:
    talk = Talk(ProxyRule(action="drop", brokers=(1,), direction="request"))
    assert talk.exchange(1, 2) == (b"", b"")
    assert not talk.talk._open


def test_acks_0_leaves_nothing_behind_that_waits_for_a_response() -> None:
    talk = Talk()
    for correlation in range(100):
        talk.talk.from_client(produce(correlation, acks=0), 0.0)
    assert not talk.talk._open


def test_hold_delivers_everything_in_order_once_it_is_released() -> None:
    talk = Talk(ProxyRule(action="hold", brokers=(1,)))
    talk.exchange(1)
    talk.exchange(2, api=METADATA)
    talk.exchange(3)
    responses = talk.talk.responses
    responses.advance(1e12)
    assert not responses.out and responses.due_at == UNTIL_RELEASED
    responses.ended = True
    assert not responses.drained, "what is held is still to be delivered"
    responses.release()
    assert bytes(responses.out) == response(1) + response(2) + response(3)
    assert responses.waiting_bytes == 0


def test_delay_lets_frames_go_when_they_are_due_and_what_follows_not_before() -> None:
    talk = Talk(ProxyRule(action="delay", brokers=(1,), delay_ms=500, count=1))
    _, responses = talk.exchange(1, 2)
    flow = talk.talk.responses
    assert responses == b"" and flow.due_at == 0.5
    flow.advance(0.4)
    assert not flow.out
    flow.advance(0.5)
    assert bytes(flow.out) == response(1) + response(2)


STALL = ProxyRule(action="stall", brokers=(1,), direction="begin", count=1, delay_ms=500)


def long_request(correlation: int, api: int = PRODUCE, size: int = 3 * BEGIN_BYTES) -> bytes:
    return request(correlation, api, version=10, rest=b"\0\0" + struct.pack(">hi", -1, 30_000) + bytes(size))


def test_stall_reads_the_begin_of_a_request_and_the_rest_when_it_is_over_once() -> None:
    talk = Talk(STALL)
    conversation, frame = talk.talk, long_request(1)
    flow = conversation.requests
    conversation.from_client(frame[: BEGIN_BYTES - 1], 1.0)
    assert (flow.stalled_until, flow.due_at, talk.book.hits(STALL)) == (0, UNTIL_RELEASED, {})
    conversation.from_client(frame[BEGIN_BYTES - 1 : BEGIN_BYTES], 2.0)
    assert (flow.stalled_until, flow.due_at, talk.book.hits(STALL)) == (2.5, 2.5, {})
    conversation.end_stall(len(frame) - BEGIN_BYTES - 1)
    assert (flow.stalled_until, flow.due_at) == (0, UNTIL_RELEASED)
    conversation.from_client(frame[BEGIN_BYTES : 2 * BEGIN_BYTES], 2.6)
    conversation.from_client(frame[2 * BEGIN_BYTES :], 2.7)
    assert flow.stalled_until == 0 and bytes(flow.out) == frame, "the rest of the request is no other begin"
    assert talk.book.hits(STALL) == {"1": {"one": 1}}, "the whole request is no match"


def test_a_stall_in_which_the_client_keeps_nothing_does_not_count() -> None:
    talk = Talk(STALL)
    frame = long_request(1)
    talk.talk.from_client(frame[:BEGIN_BYTES], 1.0)
    talk.talk.end_stall(len(frame) - BEGIN_BYTES)
    assert talk.book.hits(STALL) == {} and not talk.talk.requests.stalled_until


def test_stall_counts_only_the_begins_of_long_produce_requests() -> None:
    rule = replace(STALL, nth=2)
    talk = Talk(rule)
    flow = talk.talk.requests
    short = long_request(6, size=LONG_BYTES - 200)
    for frame in (produce(1), long_request(2, METADATA), long_request(3), produce(4), short):
        talk.talk.from_client(frame[:20_000], 1.0)
        assert not flow.stalled_until
        talk.talk.from_client(frame[20_000:], 1.0)
    talk.talk.from_client(long_request(5)[:20_000], 1.0)
    assert flow.stalled_until == 1.5
    assert Talk().talk.requests.due_at == UNTIL_RELEASED


def test_a_release_ends_a_stall() -> None:
    talk = Talk(STALL)
    flow = talk.talk.requests
    talk.talk.from_client(long_request(1)[:20_000], 1.0)
    assert talk.book.stalls(1) and not talk.book.stalls(2)
    talk.book.release([1])
    flow.release()
    assert not talk.book.stalls(1) and flow.stalled_until == 0
    talk.talk.end_stall(0)
    assert talk.book.hits(STALL) == {}


def test_only_a_stall_is_about_begins() -> None:
    for fields in ({"action": "stall", "direction": "request"}, {"action": "drop", "direction": "begin"}):
        with pytest.raises(ValueError, match="direction"):
            rule_of({"brokers": (1,), **fields})
    assert rule_of({"action": "stall", "brokers": (1,), "direction": "begin"}).delay_ms == 0


def test_close_counts_and_ends_the_connection() -> None:
    rule = ProxyRule(action="close", brokers=(1,), count=1)
    talk = Talk(rule)
    with pytest.raises(Closed):
        talk.exchange(1)
    assert talk.book.hits(rule) == {"1": {"one": 1}}
    _, responses = talk.exchange(2)  # the client comes back
    assert responses == response(2)


def test_a_rule_counts_every_client_and_every_broker_for_itself() -> None:
    rule, book = ProxyRule(action="drop", brokers=(1, 2), count=1), RuleBook()
    book.put(rule)
    for broker, client in ((1, "one"), (1, "one"), (1, "two"), (2, "one"), (3, "one")):
        book.decide("response", PRODUCE, client, broker)
    assert book.hits(rule) == {"1": {"one": 1, "two": 1}, "2": {"one": 1}}


def test_a_released_rule_is_gone_with_its_counts_and_may_come_again() -> None:
    rule, book = ProxyRule(action="drop", brokers=(1, 2)), RuleBook()
    book.put(rule)
    with pytest.raises(ValueError, match="in force already"):
        book.put(rule)
    book.release([1])
    assert book.decide("response", PRODUCE, "one", 1) is None
    assert book.decide("response", PRODUCE, "one", 2) == rule
    book.release([2])
    assert book.hits(rule) == {} and book.decide("response", PRODUCE, "one", 2) is None
    book.put(rule)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"api": "Produse"}, "Produse"),
        ({"nth": 0}, "nth"),
        ({"direction": "up"}, "direction"),
        ({"colour": 1}, "colour"),
        ({"action": "burn"}, "action"),
    ],
)
def test_a_rule_without_meaning_is_refused_by_name(fields: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        rule_of({"action": "drop", "brokers": (1,), **fields})


def test_a_full_direction_makes_its_sender_wait_until_it_is_let_go() -> None:
    flow = Flow()
    for _ in range(33):
        flow.put(bytes(1 << 20), UNTIL_RELEASED)
    assert flow.full
    flow.release()
    assert flow.full and not flow.waiting
    flow.discard()
    assert not flow.full


def test_every_step_of_the_catalogue_at_the_proxy_is_a_rule() -> None:
    steps = [step for entry in ENTRIES.values() for step in entry.fault.steps if step.action in PROXIED]
    for step in steps:
        fake = FakeCluster(capabilities=("proxy",))
        ACTIONS[step.action].do(ActionContext(Cluster(fake), [1], step.options))
        assert [rule_of(rule).brokers for rule in fake.proxy_rules] == [(1,)]


PROXIED = [name for name, act in ACTS.items() if act.takes_effect and act.needs == ("proxy",)]


def test_the_actions_of_the_proxy_are_those_of_its_rules() -> None:
    assert set(PROXIED) == {"drop", "hold", "delay", "close", "stall", "delay_end"} == set(ACTS["release"].heals)
    assert all(
        {option.name for option in ACTS[name].options} - {"clients"} < set(ProxyRule.__struct_fields__)
        for name in PROXIED
    )
    assert Frames("drop").name == "drop"


END_TXN, ADD_PARTITIONS = APIS["EndTxn"], APIS["AddPartitionsToTxn"]
LATE = ProxyRule(action="delay", brokers=(1,), direction="request", api="EndTxn", count=1, delay_ms=6000)


def end_request(
    correlation: int, commit: bool = True, client: str = "one", version: int = 1, of: str = "kdv-0"
) -> bytes:
    producer = struct.pack(">qhb", 4711, 3, commit)
    body = struct.pack(">h", len(of)) + of.encode() + producer
    if version >= 3:
        body = b"\x01\x00\x02ab" + bytes([len(of) + 1]) + of.encode() + producer + b"\x00"
    return request(correlation, END_TXN, client, version, body)


def end_response(correlation: int, error_code: int = 0, version: int = 1) -> bytes:
    body = struct.pack(">ih", 0, error_code)
    return response(correlation, body if version < 3 else b"\x01\x80\x01\x01x" + body + b"\x00")


@pytest.mark.parametrize("version", [1, 5])
@pytest.mark.parametrize("commit", [True, False])
def test_the_end_of_a_transaction_is_read_from_its_request(commit: bool, version: int) -> None:
    assert transaction_end_of(end_request(1, commit, version=version)) == TransactionEnd("kdv-0", commit, version == 5)


def test_the_end_of_a_transaction_is_read_as_a_library_writes_it() -> None:
    written = encoded("EndTxn", 5, transactional_id="kdv-0", producer_id=4711, producer_epoch=3, committed=True)
    assert transaction_end_of(struct.pack(">i", len(written)) + written) == TransactionEnd("kdv-0", True, True)


def test_no_other_request_and_none_that_is_cut_off_is_read_as_the_end_of_a_transaction() -> None:
    assert transaction_end_of(request(1, ADD_PARTITIONS)) is None
    for version, behind in ((1, 0), (5, 1)):
        whole = end_request(1, version=version)
        for size in range(len(request(1, END_TXN, rest=b"")), len(whole) - behind):
            with pytest.raises(NotKafka):
                transaction_end_of(whole[:size])


@pytest.mark.parametrize("version", [1, 5])
@pytest.mark.parametrize("error_code", [0, 48])
def test_a_late_end_is_noted_with_what_overtook_it_and_what_it_was_answered(error_code: int, version: int) -> None:
    book = RuleBook()
    book.put(LATE)
    old, new, other = (Conversation(1, book) for _ in range(3))
    old.from_client(end_request(1, commit=False, version=version), 10.0)
    old.from_client(request(2, ADD_PARTITIONS), 10.1)  # it waits behind the late request: it overtakes nothing
    assert [(end.transactional_id, end.is_commit, end.error_code) for end in book.late_ends(LATE)] == [
        ("kdv-0", False, None)
    ]
    other.from_client(request(1, ADD_PARTITIONS, client="two"), 11.0)
    Conversation(2, book).from_client(request(1, ADD_PARTITIONS), 11.0)  # at another broker
    new.from_client(end_request(1, commit=False), 12.0)
    new.from_client(request(2, ADD_PARTITIONS), 12.0)
    assert not old.requests.out and new.requests.out
    old.from_broker(end_response(1, error_code, version), 16.01)
    new.from_client(request(3, ADD_PARTITIONS), 17.0)
    (end,) = book.late_ends(LATE)
    assert (end.client, end.broker, end.late_ms, end.error_code) == ("one", 1, 6010, error_code)
    assert end.overtaken_by == {END_TXN: 1, ADD_PARTITIONS: 1}
    book.release([1])
    assert book.late_ends(LATE) == []


def test_an_end_that_no_rule_delays_is_not_noted() -> None:
    book = RuleBook()
    rules = [ProxyRule(action=action, brokers=(1,), direction="request", api="EndTxn") for action in ("drop", "close")]
    for rule in rules:
        book.put(rule)
        with suppress(Closed):
            Conversation(1, book).from_client(end_request(1), 0.0)
        assert book.hits(rule) and book.late_ends(rule) == []
        book.release([1])


def test_late_ends_are_proof_once_brokers_have_answered_enough_clients() -> None:
    fake = FakeCluster(capabilities=("proxy",))
    fields = {"client": "a-0", "broker": 2, "transactional_id": "kdv-a-0", "is_commit": True, "came_at": 1.0}
    answered = {"late_ms": 6003, "error_code": 0, "overtaken_by": {str(END_TXN): 1, str(ADD_PARTITIONS): 2}}
    context = ActionContext(Cluster(fake), [1, 2, 3], {"delay_ms": 6000, "clients": 2})
    fake.late_ends = [{**fields, **answered}, {**fields, "client": "b-0", "transactional_id": "kdv-b-0"}]
    assert ACTIONS["delay_end"].proof(context, Done(0)) == {}
    fake.late_ends[1] |= {"late_ms": 6001, "error_code": 48, "is_commit": False}
    assert ACTIONS["delay_end"].proof(context, Done(0)) == {
        "EndTxn (commit) of kdv-a-0 at broker 2": {
            "error_code": 0,
            "late_ms": 6003,
            "AddPartitionsToTxn": 2,
            "EndTxn": 1,
        },
        "EndTxn (abort) of kdv-b-0 at broker 2": {"error_code": 48, "late_ms": 6001},
    }
