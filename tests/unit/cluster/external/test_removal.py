"""What is removed from a cluster that somebody else runs: only what is registered, by its id, and nothing is forgotten
that may still be there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.external import removal
from delivery_verifier.cluster.external.cluster import SharedCluster
from delivery_verifier.cluster.external.register import Register
from delivery_verifier.model.errors import StepFailed

OURS, OTHER = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


class Stranger:
    """A cluster with `topics`, by name and id, that answers `codes` to the removal of an id (default: as it is)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, there: dict[str, str], code: int | None = None) -> None:
        self.there, self.code, self.removed = there, code, list[str]()
        self.connection, self.asking = Connection({}), None
        monkeypatch.setattr(topics, "admin", lambda connection: None)
        monkeypatch.setattr(removal, "ids", lambda client, names: {n: i for n, i in there.items() if n in names})
        monkeypatch.setattr(removal, "_delete", self._delete)

    def _delete(self, topic_id: str, cluster: object) -> int:
        self.removed.append(topic_id)
        if self.code is not None:
            return self.code
        return 0 if topic_id in self.there.values() else 100


@pytest.fixture
def register(tmp_path: Path) -> Register:
    path = tmp_path / "abcdefgh.jsonl"
    path.write_bytes(b"{}\n")
    made = Register(path)
    made.intend("topic", ["kdv-abcdefgh-a"])
    return made


def remove(register: Register, stranger: Stranger) -> list[str]:
    return removal.remove(register, cast("SharedCluster", stranger))


def test_a_topic_is_removed_by_its_id(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    register.created("kdv-abcdefgh-a", OURS)
    stranger = Stranger(monkeypatch, {"kdv-abcdefgh-a": OURS, "kdv-abcdefgh-b": OTHER})
    assert remove(register, stranger) == ["kdv-abcdefgh-a"] and stranger.removed == [OURS]
    assert not register.path.exists()


def test_a_topic_of_the_same_name_with_another_id_stays(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    register.created("kdv-abcdefgh-a", OURS)
    stranger = Stranger(monkeypatch, {"kdv-abcdefgh-a": OTHER})
    assert remove(register, stranger) == [] and stranger.removed == [OURS]
    assert not register.path.exists()


def test_a_topic_whose_id_a_killed_run_did_not_write_down_is_known_by_its_name(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert remove(register, Stranger(monkeypatch, {"kdv-abcdefgh-a": OURS})) == ["kdv-abcdefgh-a"]


def test_what_may_still_be_under_way_stays_registered(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StepFailed, match=r"whether it was created is not known yet.*kdv doctor --heal"):
        remove(register, Stranger(monkeypatch, {}))
    assert register.standing()
    monkeypatch.setattr(removal, "SETTLED_S", 0.0)
    assert remove(register, Stranger(monkeypatch, {})) == [] and not register.path.exists()


@pytest.mark.parametrize(("code", "said"), [(29, "error 29"), (100, "the cluster says it does not know")])
def test_what_the_cluster_does_not_remove_stays_registered(
    register: Register, monkeypatch: pytest.MonkeyPatch, code: int, said: str
) -> None:
    register.created("kdv-abcdefgh-a", OURS)
    monkeypatch.setattr(removal, "LAG_S", 0.0)
    with pytest.raises(StepFailed, match=said):
        remove(register, Stranger(monkeypatch, {"kdv-abcdefgh-a": OURS}, code))
    assert register.standing()


def test_the_next_broker_is_asked_if_one_is_silent_or_cannot_do_it() -> None:
    asked = list[int]()

    def ask(broker: int, name: str, timeout_s: float, **fields: Any) -> Any:
        asked.append(broker)
        if broker == 1:
            raise ConnectionRefusedError
        return SimpleNamespace(responses=[SimpleNamespace(error_code=41 if broker == 2 else 0)])

    cluster = SimpleNamespace(connection=SimpleNamespace(brokers=[1, 2, 3]), asking=SimpleNamespace(ask=ask))
    assert removal._delete(OURS, cast("SharedCluster", cluster)) == 0 and asked == [1, 2, 3]
    cluster.connection.brokers = [1]
    with pytest.raises(StepFailed, match="no broker could remove it"):
        removal._delete(OURS, cast("SharedCluster", cluster))


class Group(Stranger):
    """A cluster with a group whose removal fails with these codes, one after another, and then succeeds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *codes: int) -> None:
        super().__init__(monkeypatch, {})
        self.codes = [*codes]
        monkeypatch.setattr(topics, "admin", lambda connection: self)

    def delete_consumer_groups(self, names: list[str], request_timeout: float) -> dict[str, Any]:
        def result(timeout_s: float) -> None:
            if self.codes:
                raise KafkaException(KafkaError(self.codes.pop(0)))

        return {name: SimpleNamespace(result=result) for name in names}


@pytest.fixture
def of_group(tmp_path: Path) -> Register:
    path = tmp_path / "abcdefgh.jsonl"
    path.write_bytes(b"{}\n")
    made = Register(path)
    made.intend("group", ["kdv-abcdefgh-a"])
    return made


@pytest.mark.parametrize(
    ("codes", "removed"),
    [((), True), ((KafkaError.NON_EMPTY_GROUP,), True), ((KafkaError.GROUP_ID_NOT_FOUND,), False)],
)
def test_a_group_is_removed_once_its_members_have_left(
    of_group: Register, monkeypatch: pytest.MonkeyPatch, codes: tuple[int, ...], removed: bool
) -> None:
    assert remove(of_group, Group(monkeypatch, *codes)) == ["kdv-abcdefgh-a"] * removed
    assert not of_group.path.exists()


@pytest.mark.parametrize("code", [KafkaError.NON_EMPTY_GROUP, KafkaError.GROUP_AUTHORIZATION_FAILED])
def test_a_group_that_cannot_be_removed_stays_registered(
    of_group: Register, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(removal, "GROUPS_S", 0.0)
    with pytest.raises(StepFailed, match="not removed from the cluster: kdv-abcdefgh-a"):
        remove(of_group, Group(monkeypatch, *[code] * 9))
    assert of_group.standing()


class Living(Stranger):
    """A cluster whose brokers know each other as living, but for one: `lacking` does not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lacking: int | None) -> None:
        super().__init__(monkeypatch, {})
        self.lacking = lacking
        self.connection: Any = SimpleNamespace(brokers=[11, 12])
        self.requests: Any = SimpleNamespace(live_brokers=self.live_brokers)

    def live_brokers(self, broker: int) -> set[int]:
        if broker == self.lacking:
            raise TimeoutError
        return {11, 12}


@pytest.mark.parametrize(("action", "by_hand"), [("pause", "resume"), ("isolate", "rejoin"), ("stop", "start")])
def test_nobody_but_the_operator_is_said_to_end_a_fault(
    register: Register, monkeypatch: pytest.MonkeyPatch, action: str, by_hand: str
) -> None:
    register.ordered(action, 12)
    with pytest.raises(
        StepFailed,
        match=rf"^not removed.*kdv-abcdefgh-a \(.*; not healed: {action} of broker 12 \(.*{by_hand} it by hand\)",
    ) as raised:
        remove(register, Living(monkeypatch, 12))
    assert str(raised.value).endswith("no run does it")


def test_a_broker_that_a_dead_run_ordered_to_be_killed_is_named_until_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "abcdefgh.jsonl"
    path.write_bytes(b"{}\n")
    register = Register(path)
    entry = register.ordered("kill", 12)
    assert (entry.name, entry.broker) == ("kill of broker 12", 12)
    with pytest.raises(StepFailed, match=r"kill of broker 12 \(ordered at .*UTC, and it is not back: start it by hand"):
        remove(register, Living(monkeypatch, 12))
    assert [each.name for each in register.standing()] == ["kill of broker 12"]
    assert remove(register, Living(monkeypatch, None)) == [] and not path.exists()
