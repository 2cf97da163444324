"""What an answer of a broker says of a right. An answer that is not understood is never a yes."""

from __future__ import annotations

import time
from typing import Any

import pytest

from delivery_verifier.cluster.check import cluster_check, rights
from delivery_verifier.cluster.check.rights import Right, RightsQuestion, Wanted


class Broker:
    """Answers a question with one error code, wherever it stands in the answer."""

    def __init__(self, code: int) -> None:
        self.code, self.names = code, set[str]()

    def ask(self, _broker: int, _name: str, _timeout_s: float, **fields: Any) -> Any:
        self.names |= {name for name in str(fields).replace("'", " ").split() if "check" in name}
        return self

    def __getattr__(self, name: str) -> Any:
        if name == "configs":
            return None
        return self.code if name.endswith("error_code") else [self]


def answer(right: Right, code: int) -> tuple[str, set[str]]:
    broker = Broker(code)
    question = RightsQuestion(broker, 1, f"{rights.PREFIX}check-1", Wanted({}, [[1]]))  # type: ignore[arg-type]
    return rights.ask(right, question).standing, broker.names


@pytest.mark.parametrize("right", rights.RIGHTS, ids=str)
def test_only_an_answer_that_is_understood_says_something(right: Right) -> None:
    own = {"topic": 29, "group": 30, "cluster": 31, "transactional-id": 53}[right.kind]
    assert answer(right, own)[0] == "missing"
    assert answer(right, 3)[0] == "granted"
    for code in (-1, 7, 35, 41, 42 if right != rights.CREATE else 7, 9999):
        assert answer(right, code)[0] == "not known", code


def test_a_right_on_other_names_is_asked_about_such_a_name() -> None:
    own = rights.WRITE_TRANSACTIONS._replace(name="pay")
    assert answer(own, 3) == ("granted", {"paycheck-1"})


class Picky(Broker):
    """Refuses a topic that asks for two replicas in sync, and does not answer for one that asks for three."""

    def ask(self, broker: int, name: str, timeout_s: float, **fields: Any) -> Any:
        if name == "CreateTopics":
            (number,) = [value for _, value in fields["topics"][0][4]]
            self.code = {"1": 0, "2": 44, "3": 29}[number]
            if number == "3":
                raise TimeoutError
        return super().ask(broker, name, timeout_s, **fields)


def test_every_topic_is_asked_about_and_what_is_not_answered_stays_unknown() -> None:
    wanted = {f"kdv-{number}": Wanted({"min.insync.replicas": str(number)}, [[1]]) for number in (1, 2, 3)}
    question = RightsQuestion(Picky(0), 1, f"{rights.PREFIX}check-1", wanted["kdv-1"])  # type: ignore[arg-type]
    _, created, _ = cluster_check._answers(question, [], wanted, time.monotonic() + 10)
    assert {name: each and each.code for name, each in created.items()} == {"kdv-1": 0, "kdv-2": 44, "kdv-3": None}
