"""Watches a run that goes on, and compares what terminal and tab said with what the run wrote down afterwards."""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from delivery_verifier.host import folders
from delivery_verifier.local_airflow import run as local_run
from delivery_verifier.model.history import now_us, read_injections
from delivery_verifier.model.steps import DOING
from delivery_verifier.orchestration.names import DAG_ID
from delivery_verifier.progress import phases
from delivery_verifier.progress.follower import Follower
from delivery_verifier.run_directory.ledger import LOAD_BEGAN
from delivery_verifier.run_directory.run_directory import RunDirectory
from support.airflow import LocalAirflow
from support.patience import PATIENCE_S

LOOKS_EVERY_S = 0.5
ASKS_EVERY_S = 2.0
"""Seconds between two looks at the tab. The page of the tab reloads itself as often."""
_WARM_UP, _BEFORE, _UNDER, _AFTER = "warm-up of the producers", "load before", "load under", "load after"
ORDER = (
    phases.WAITING,
    *(DOING[step] for step in ("plan", "start_cluster", "create_topics", "inject_fault", "produce")),
    *(_WARM_UP, _BEFORE, _UNDER, _AFTER),
    *(DOING[step] for step in ("settle", "read_topic")),
    *(DOING[step] for step in ("reconcile", "validate", "conclude")),
    "ending the run",
)
"""The phases in their order. A run through Airflow also says which step comes next, or that its cluster is stopped."""


class Saying(NamedTuple):
    """What a watcher said: the phase as a text, and when it was asked and when it had answered, in µs since the
    epoch."""

    asked_us: int
    text: str
    answered_us: int


@contextmanager
def watching(say: Callable[[], str], every_s: float) -> Iterator[list[Saying]]:
    """Asks `say` again and again while the block runs. Yields the list of what it said. An empty text is left out."""
    said, over = list[Saying](), threading.Event()

    def work() -> None:
        while not over.wait(every_s):
            asked_us = now_us()
            if text := say():
                said.append(Saying(asked_us, text, now_us()))

    thread = threading.Thread(target=work, name="watching")
    thread.start()
    try:
        yield said
    finally:
        over.set()
        thread.join(timeout=PATIENCE_S)
    assert not thread.is_alive()


def of_line(follower: Follower) -> str:
    """Returns the phase in the live line: what stands behind the seconds, without the figures."""
    return re.split(r"  +", follower.line().strip())[1]


@contextmanager
def directly(run_dir: Path) -> Iterator[tuple[Follower, list[Saying]]]:
    """Watches a direct run. Yields the follower, whose `step_changed` is the run's listener, and what it says."""
    follower = Follower(run_dir, quiet=True)
    with watching(lambda: of_line(follower), LOOKS_EVERY_S) as said:
        yield follower, said


@contextmanager
def through_airflow(airflow: LocalAirflow, run_id: str) -> Iterator[dict[str, list[Saying]]]:
    """Watches a run of verify_delivery that exists already. Yields what the live line and the tab say of it.

    The live line hears of the steps as it does in `kdv run`, which asks Airflow once a second.
    """
    follower = Follower(airflow.runs / folders.run_directory_name(run_id), quiet=True)
    client, page = airflow.client(), airflow.http("admin")

    def tab() -> str:
        answer = page.get(f"/delivery/dag/{DAG_ID}/{quote(run_id)}/", follow_redirects=False)
        found = re.search(r"<h1>(.*?)</h1>", answer.text) if answer.status_code == 200 else None
        return html.unescape(found[1]) if found else ""

    feeder = threading.Thread(target=lambda: local_run._follow(client, run_id, follower.step_changed), daemon=True)
    with ExitStack() as stack:
        feeder.start()
        said = {"terminal": stack.enter_context(watching(lambda: of_line(follower), LOOKS_EVERY_S))}
        said["tab"] = stack.enter_context(watching(tab, ASKS_EVERY_S))
        yield said
        feeder.join(timeout=PATIENCE_S)


def assert_true(said: Sequence[Saying], run: RunDirectory) -> None:
    """Asserts that every saying was true when it was said, as far as the run has written down what happened when.

    The words of a step may come some seconds late, because somebody asks for its state. They never come early, and
    never come back. Of the load and its fault, the times are known to the process that made them.
    """
    order = [place for each in said if (place := _place(each.text)) is not None]
    assert order == sorted(order), [each.text for each in said]
    (injection,) = read_injections((run.path / "injections.json").read_bytes())
    assert injection.recovered_at_us is not None
    ends = {step: run.manifest(step).finished_at_us for step in DOING if (run.path / f"{step}.json").is_file()}
    began_us = run.manifest("produce").counts[LOAD_BEGAN]
    not_before_us = {
        _BEFORE: began_us,
        _UNDER: injection.effect_at_us,
        _AFTER: injection.recovered_at_us,
        DOING["start_cluster"]: ends["plan"],
        DOING["create_topics"]: ends["start_cluster"],
        _WARM_UP: ends["create_topics"],
        DOING["settle"]: ends["produce"],
        DOING["read_topic"]: ends["settle"],
        DOING["reconcile"]: ends["read_topic"],
        DOING["validate"]: ends["reconcile"],
        DOING["conclude"]: ends["validate"],
    }
    not_after_us = {_BEFORE: injection.recovered_at_us, _UNDER: ends["inject_fault"]}
    for each in said:
        phase = ORDER[place] if (place := _place(each.text)) is not None else ""
        assert each.answered_us >= not_before_us.get(phase, 0), f"too early: {each}"
        assert each.asked_us <= not_after_us.get(phase, each.asked_us), f"too late: {each}"


def _place(text: str) -> int | None:
    """Returns the place of a saying in ORDER; None if it has none. A headline begins with a capital letter."""
    lower = text.lower()
    if lower.startswith("next: ") or lower == DOING["stop_cluster"]:
        return None
    (place,) = [
        at
        for at, phase in enumerate(ORDER)
        if lower == phase.lower() or (phase.startswith("load ") and lower.startswith(phase))
    ]
    return place
