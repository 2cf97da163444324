"""Tests of members with another librdkafka than the installed one, on a mock cluster of librdkafka. The wheels are
real: the tests that need one are marked slow, because they may fetch it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.evidence import RUN
from support.mock_broker import MockBroker
from support.patience import PATIENCE_S

from delivery_verifier.applications.control import Word
from delivery_verifier.applications.incarnations import incarnations_of
from delivery_verifier.applications.journal import FILE, Event, read_journal
from delivery_verifier.applications.member_process import MemberDied
from delivery_verifier.applications.pool import MemberPool, group_of
from delivery_verifier.applications.slots import read_slots
from delivery_verifier.catalogue import ENTRIES
from delivery_verifier.host.librdkafka import wheels
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model import record
from delivery_verifier.model.scenario import Scenario

(TOLD_OF_ENDS, _) = (plan.application for plan in ENTRIES["consumer.eof_events"].arms)


def scenario_of(version: str) -> Scenario:
    assert TOLD_OF_ENDS is not None
    arm = replace(RUN.subjects[0], application=replace(TOLD_OF_ENDS, client_version=version))
    return replace(RUN, arms=(arm, RUN.canary))


class Stage:
    """The one member of a scenario, and a broker. Only partition 0 has records."""

    def __init__(self, scenario: Scenario, workspace: Path) -> None:
        self.broker, self.scenario, self.arm = MockBroker(), scenario, scenario.subjects[0]
        self.pool = MemberPool(scenario, {"librdkafka": self.broker.connection}, workspace, lambda pid: None)
        (self.member,) = self.pool.members

    def write(self, *numbers: int) -> None:
        values = [record.encode(self.scenario.run_token, self.arm.ordinal, 0, 0, at, 0, at, 100) for at in numbers]
        self.broker.write(self.arm.topic_name, values)

    def live(self, until: int) -> list[int]:
        """Starts the member, waits until it is told that partition 0 ends at the offset `until`, and stops it. Returns
        the offsets that it has applied."""
        self.pool.start()
        wait_until(
            lambda: self.pool.check() and any((each.partition, each.first) == (0, until) for each in self.ends()),
            f"the end {until}",
            PATIENCE_S,
        )
        self.pool.stop()
        return [int(offset) for offset in read_slots(self.folders()[-1])["offset"]]

    def folders(self) -> list[Path]:
        return list(incarnations_of(self.member.folder).values())

    def ends(self) -> list[Event]:
        return [event for event in read_journal(self.folders()[-1]) if event.what == "end"]

    @property
    def committed(self) -> int:
        return self.broker.committed(self.arm.topic_name, group_of(self.scenario, self.arm))


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[list[Stage]]:
    made = list[Stage]()
    yield made
    for stage in made:
        stage.pool.close()


@pytest.mark.slow
@pytest.mark.parametrize(("version", "beyond"), [("2.13.0", 1), ("2.13.2", 0), ("", 0)])
def test_librdkafka_2_13_0_commits_beyond_an_end_that_it_told_of_and_the_next_life_skips_a_record(
    tmp_path: Path, stages: list[Stage], version: str, beyond: int
) -> None:
    stages.append(stage := Stage(scenario_of(version), tmp_path))
    stage.write(*range(10))
    assert stage.live(10) == list(range(10))
    assert stage.committed == 10 + beyond
    assert all(event.what != "error" for folder in stage.folders() for event in read_journal(folder))
    stage.write(*range(10, 15))
    assert stage.live(15) == list(range(10 + beyond, 15))
    assert stage.member.control[Word.HANDED_OVER] == 5 - beyond


def test_a_member_that_has_another_version_than_it_was_to_have_ends_before_it_consumes(
    tmp_path: Path, stages: list[Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "environment", lambda version: None)
    stages.append(stage := Stage(scenario_of("2.13.2"), tmp_path))
    with pytest.raises(MemberDied, match=r"was to have confluent-kafka 2\.13\.2 .*, and has 2\.16\.1"):
        stage.pool.start()
    assert stage.committed < 0 and not (stage.folders()[-1] / FILE).exists()


def test_a_version_that_cannot_be_had_starts_no_member(
    tmp_path: Path, stages: list[Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(version: str) -> Path:
        raise wheels.WheelError(f"librdkafka {version} cannot be had")

    stages.append(stage := Stage(scenario_of("2.13.2"), tmp_path))
    monkeypatch.setattr(wheels, "environment", refuse)
    with pytest.raises(wheels.WheelError, match=r"2\.13\.2 cannot be had"):
        stage.pool.start()
    assert stage.member.process is None and stage.folders() == []
    with pytest.raises(wheels.WheelError, match=r"2\.13\.2 cannot be had"):
        Stage(scenario_of("2.13.2"), tmp_path / "another")
