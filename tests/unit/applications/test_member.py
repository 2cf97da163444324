"""Tests of a member at work: when each discipline commits, where a member parks, and what its control block says then.

The consumer is a stand-in, which hands over what a test gives it.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from support.consumers import ARM, RUN, Client, message, spec_of
from support.patience import PATIENCE_S

from delivery_verifier.applications import commits
from delivery_verifier.applications import process as member_process
from delivery_verifier.applications.control import Control, State, Word
from delivery_verifier.applications.incarnations import last_markers
from delivery_verifier.applications.journal import read_journal
from delivery_verifier.applications.member import Member
from delivery_verifier.applications.parking import POINTS
from delivery_verifier.applications.spec import MemberSpec, incarnation_folder
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model import record
from delivery_verifier.model.application import CrashPoint, Discipline


def refused(code: int, partition: int | None = None) -> Any:
    return SimpleNamespace(error=lambda: KafkaError(code), partition=lambda: partition)


class Effects:
    """Takes effects, and notes each in the list of what the client did."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def append(self, partition: int, offset: int, batch: int, value: bytes, run_token: str, arm_ordinal: int) -> None:
        assert (run_token, arm_ordinal) == (RUN, ARM)
        self.client.did.append(("apply", offset))


def member_of(spec: MemberSpec, messages: list[Any]) -> tuple[Member, Client]:
    """Returns a member that applies `messages` and then ends, and its client."""
    client = Client(messages, lambda: member.stop())
    member = Member(spec, cast(Consumer, client), Effects(client))
    return member, client


WORK: dict[Discipline, list[tuple[Any, ...]]] = {
    "at_handover": [("apply", 0), ("apply", 1), ("apply", 2)],
    "commit_first": [("commit", 2), ("apply", 0), ("apply", 1), ("commit", 3), ("apply", 2)],
    "commit_after": [("apply", 0), ("apply", 1), ("commit", 2), ("apply", 2), ("commit", 3)],
    "store_after": [("apply", 0), ("store", 1), ("apply", 1), ("store", 2), ("apply", 2), ("store", 3)],
}


@pytest.mark.parametrize("discipline", WORK)
def test_each_discipline_lets_go_of_a_batch_when_its_name_says(discipline: Discipline, tmp_path: Path) -> None:
    member, client = member_of(spec_of(tmp_path, discipline), [message(offset) for offset in range(3)])
    member.run()
    assert client.did == [("subscribe", "the-topic"), *WORK[discipline], ("close",)]
    committed = 3 if discipline.startswith("commit") else 0
    words = (Word.STATE, Word.HANDED_OVER, Word.APPLIED, Word.COMMITTED)
    assert [member.control[word] for word in words] == [State.CLOSED, 3, 3, committed]


def test_the_journal_says_what_was_handed_over_and_committed(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "commit_after")
    member_of(spec, [message(5), message(6), message(7)])[0].run()
    events = [(event.what, event.batch, event.first, event.until) for event in read_journal(incarnation_folder(spec))]
    assert events == [
        ("started", -1, -1, -1),
        ("assigned", -1, -1, -1),
        ("handed_over", 0, 5, 7),
        ("committed", 0, -1, 7),
        ("handed_over", 1, 7, 8),
        ("committed", 1, -1, 8),
        ("revoked", -1, -1, -1),
        ("closed", -1, -1, -1),
    ]


def test_a_journal_that_was_cut_in_two_has_the_rows_that_are_whole(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "commit_after")
    member_of(spec, [message(5)])[0].run()
    file = incarnation_folder(spec) / "journal"
    file.write_bytes(file.read_bytes()[:-1])
    assert [event.what for event in read_journal(incarnation_folder(spec))][-1] == "revoked"
    assert read_journal(tmp_path / "nowhere") == []


def test_a_refused_batch_is_not_applied_by_commit_first_but_asked_for_again(tmp_path: Path) -> None:
    member, client = member_of(spec_of(tmp_path, "commit_first"), [message(4), message(5)])
    client.answers = [KafkaError.ILLEGAL_GENERATION]
    member.run()
    assert client.did[1:] == [("commit", 6), ("seek", 4), ("close",)]
    assert member.control[Word.HANDED_OVER] == member.control[Word.APPLIED] == 0


def test_a_commit_that_nobody_refused_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "_AGAIN_S", 0.0)
    member, client = member_of(spec_of(tmp_path, "commit_after"), [message(4)])
    client.answers = [KafkaError.NOT_COORDINATOR, KafkaError._TIMED_OUT]
    member.run()
    assert client.did[1:] == [("apply", 4), *[("commit", 5)] * 3, ("close",)]
    assert member.control[Word.COMMITTED] == 1


def test_commit_first_ends_where_nobody_knows_whether_the_group_took_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the first commit was accepted, and only its answer was lost, a batch that is asked for again never comes."""
    monkeypatch.setattr(commits, "_AGAIN_S", 0.0)
    member, client = member_of(spec_of(tmp_path, "commit_first"), [message(0), message(1)])
    client.answers = [KafkaError.REQUEST_TIMED_OUT, KafkaError.ILLEGAL_GENERATION]
    with pytest.raises(commits.CommitUnknown, match="batch"):
        member.run()
    assert not [deed for deed in client.did if deed[0] in ("apply", "seek")]


def test_the_process_of_such_a_member_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pool takes every exit code but 0 for a death, so that the run ends without a verdict."""
    spec = spec_of(tmp_path, "commit_first")
    client = Client([message(0)], lambda: None)
    client.answers = [KafkaError.REQUEST_TIMED_OUT, KafkaError.ILLEGAL_GENERATION]
    monkeypatch.setattr(commits, "_AGAIN_S", 0.0)
    monkeypatch.setattr(member_process, "consumer_of", lambda spec: client)
    monkeypatch.setattr(member_process.signal, "signal", lambda *_: None)
    (tmp_path / "spec.json").write_bytes(msgspec.json.encode(spec))
    monkeypatch.setattr(member_process.sys, "argv", ["member", str(tmp_path / "spec.json")])
    assert member_process.main() == 4
    assert "nobody knows whether" in capsys.readouterr().err


def test_a_refusal_stands_in_the_journal_by_its_name(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "commit_after")
    member, client = member_of(spec, [message(4)])
    client.answers = [KafkaError.UNKNOWN_MEMBER_ID]
    member.run()
    answers = {event.what: event.answer for event in read_journal(incarnation_folder(spec))}
    assert answers["committed"] == "UNKNOWN_MEMBER_ID"
    assert member.control[Word.HANDED_OVER] == member.control[Word.COMMITTED], "nothing of it is in progress"


def test_an_error_of_the_client_is_no_record_and_a_fatal_one_ends_the_member(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "commit_after")
    errors = [refused(KafkaError._MAX_POLL_EXCEEDED), refused(KafkaError._FAIL, partition=0)]
    member, client = member_of(spec, [*errors, message(4)])
    member.run()
    assert ("apply", 4) in client.did and member.control[Word.HANDED_OVER] == 1
    assert [
        (event.partition, event.answer) for event in read_journal(incarnation_folder(spec)) if event.what == "error"
    ] == [
        (-1, "_MAX_POLL_EXCEEDED"),
        (0, "_FAIL"),
    ]
    fatal = KafkaError(KafkaError.FENCED_INSTANCE_ID, fatal=True)
    gone = SimpleNamespace(error=lambda: fatal, partition=lambda: 0)
    with pytest.raises(KafkaException):
        member_of(spec_of(tmp_path / "fatal", "commit_after"), [gone])[0].run()


def test_a_marker_is_applied_like_any_record_and_the_last_of_each_partition_is_noted(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "commit_after", batch=10)
    marker = record.MARKER_PRODUCER
    markers = [message(1, marker, 2), message(2, marker, 2), message(0, marker, 1)]
    member, _ = member_of(spec, [message(0), *markers])
    member.run()
    assert member.control[Word.APPLIED] == 4 and member.control[Word.MARKERS] == 3
    assert last_markers(incarnation_folder(spec)) == {1: 0, 2: 2}


@pytest.mark.parametrize("callback", ["on_revoke", "on_lost"])
@pytest.mark.parametrize("discipline", WORK)
def test_what_is_revoked_while_a_batch_is_collected_is_not_applied_before_it_is_delivered_again(
    discipline: Discipline, callback: str, tmp_path: Path
) -> None:
    """Else commit_first, which asks for at most once, would apply it twice without any crash. With at_handover the
    client has committed it, so that nobody would be given it again."""
    spec = spec_of(tmp_path, discipline, batch=4)
    member, client = member_of(spec, [message(0), message(1)])
    rounds: list[list[Any]] = [[message(0), message(1), message(9, partition=1)], []]

    def revoke_and_deliver_again() -> None:
        if not rounds:
            member.stop()
        elif len(rounds) == 2:
            client.callbacks[callback](client, [TopicPartition("the-topic", 0)])
            client.messages = rounds.pop(0)
        else:
            rounds.pop(0)

    client.when_empty = revoke_and_deliver_again
    member.run()
    applied = [offset for what, offset in (did for did in client.did if did[0] == "apply")]
    twice = discipline == "at_handover"
    assert sorted(applied) == ([0, 0, 1, 1, 9] if twice else [0, 1, 9])
    assert member.control[Word.HANDED_OVER] == member.control[Word.APPLIED] == len(applied)


STANDS: dict[CrashPoint, dict[Discipline, list[tuple[Any, ...]]]] = {
    "polled": {"commit_first": [], "commit_after": [], "store_after": [], "at_handover": []},
    "committed_first": {"commit_first": [("commit", 4)], "commit_after": [], "store_after": [], "at_handover": []},
    "applied": {
        "commit_first": [("commit", 4), ("apply", 2)],
        "commit_after": [("apply", 2)],
        "store_after": [("apply", 2), ("store", 3)],
        "at_handover": [("apply", 2)],
    },
    "committed": {
        "commit_first": [("commit", 4), ("apply", 2), ("apply", 3)],
        "commit_after": [("apply", 2), ("apply", 3), ("commit", 4)],
        "store_after": [("apply", 2), ("store", 3), ("apply", 3), ("store", 4)],
        "at_handover": [("apply", 2), ("apply", 3)],
    },
}
CASES = [(point, discipline) for point, disciplines in STANDS.items() for discipline in disciplines]


def order(control: Control, point: CrashPoint, batch: int = 1, applied: int = 1) -> None:
    control[Word.PARK_AT] = POINTS.index(point) + 1
    control[Word.PARK_BATCH], control[Word.PARK_RECORD] = batch, applied
    control[Word.PARKS] += 1


@pytest.mark.parametrize(("point", "discipline"), CASES)
def test_a_member_parks_where_it_is_told_and_goes_on_when_it_is_to_end(
    point: CrashPoint, discipline: Discipline, tmp_path: Path
) -> None:
    spec = spec_of(tmp_path, discipline)
    member, client = member_of(spec, [message(offset) for offset in range(4)])
    order(member.control, point, batch=2)
    thread = threading.Thread(target=member.run)
    thread.start()
    try:
        wait_until(lambda: member.control[Word.PARKED] == 1, "the member to park", PATIENCE_S)
        before = [("subscribe", "the-topic"), *WORK[discipline][: len(WORK[discipline]) * 2 // 3]]
        assert before == client.did[: len(before)], "the batch before is done as ever"
        assert client.did[len(before) :] == STANDS[point][discipline]
    finally:
        member.stop()
        thread.join(PATIENCE_S)
    assert not thread.is_alive() and member.control[Word.PARKED] == 0
    assert member.control[Word.APPLIED] == 4 and client.did[-1] == ("close",)
    assert [event.batch for event in read_journal(incarnation_folder(spec)) if event.what == "parked"] == [1]


def test_an_order_waits_for_a_batch_that_is_long_enough_and_another_order_ends_it(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "commit_after")
    member, client = member_of(spec, [message(0)])
    order(member.control, "applied", applied=2)
    refill = [message(offset) for offset in (1, 2)]

    def hand_over() -> None:
        if len(client.did) > 2:  # the first batch, of one record, is done
            client.messages, client.when_empty = refill, member.stop

    client.when_empty = hand_over
    thread = threading.Thread(target=member.run)
    thread.start()
    try:
        wait_until(lambda: member.control[Word.PARKED] == 1, "the member to park", PATIENCE_S)
        assert client.did[1:] == [("apply", 0), ("commit", 1), ("apply", 1), ("apply", 2)]
        order(member.control, "polled")
        wait_until(lambda: not thread.is_alive(), "the member to go on and end", PATIENCE_S)
    finally:
        member.stop()
        thread.join(PATIENCE_S)
    assert client.did[-2:] == [("commit", 3), ("close",)]
