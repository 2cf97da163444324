"""Applications for tests, with settings that fit their disciplines."""

from __future__ import annotations

from msgspec.structs import replace

from delivery_verifier.model.application import TIMED, Application, Discipline
from delivery_verifier.model.scenario import Scenario


def application(discipline: Discipline = "commit_after") -> Application:
    """Returns an application with the discipline, whose consumers state every setting."""
    commit, store = TIMED[discipline]
    consumer: dict[str, str | int | bool] = {
        "auto.offset.reset": "earliest",
        "enable.auto.commit": commit,
        "enable.auto.offset.store": store,
        "isolation.level": "read_committed",
        "session.timeout.ms": 6000,
    }
    return Application(name=discipline, summary="", discipline=discipline, consumer=consumer)


def applied(plain: Scenario, discipline: Discipline = "commit_after") -> Scenario:
    """Returns the scenario with an application behind each arm but the canary."""
    arms = [arm if arm.role == "canary" else replace(arm, application=application(discipline)) for arm in plain.arms]
    return replace(plain, arms=tuple(arms))
