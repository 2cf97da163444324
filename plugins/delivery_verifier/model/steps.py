"""The steps of a run, declared once: who writes what, how long each may take, and what the verdict rests on.

Everything else that lists steps is derived from `DECLARED`. The order in which steps are worked is written in two more
places, because it is code there: `run/direct.py` and `dags/verify_delivery.py`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Literal, get_args

from msgspec import Struct

StepName = Literal[
    "plan",
    "start_cluster",
    "create_topics",
    "produce",
    "inject_fault",
    "settle",
    "reconcile",
    "validate",
    "conclude",
    "stop_cluster",
]
"""The steps that are Airflow tasks. Type checkers need the names as literals; a test compares them with `DECLARED`."""
STEPS: tuple[StepName, ...] = get_args(StepName)
"""The same names, in the order in which the steps are worked."""

GATE: Final = "conclude"
"""The step that gives the verdict. It waits for the steps before it, and fails if one of them did not succeed."""


class Output(Struct, frozen=True):
    """A file or folder of the run directory, relative to it. `meaning` explains it to readers of a report."""

    name: str
    meaning: str


class Step(Struct, frozen=True, kw_only=True):
    """What the other parts must know of a step. `name` is also the name of its manifest, `<name>.json`."""

    name: StepName | Literal["read_topic"]
    timeout: timedelta | None
    """Execution timeout of the step's Airflow task. None: the step has no task of its own."""
    needs_cluster: bool = False
    """Whether the step talks to the brokers: such a step comes after start_cluster and before stop_cluster."""
    repeatable: bool = False
    """Whether the step is a pure function of the run directory, and may be repeated there."""
    voids: tuple[str, ...] = ()
    """The steps whose output becomes void when this step publishes again. The verdict comes first: it is read off all
    the others, and must not outlive any of them."""
    writes: tuple[Output, ...] = ()
    """What the step adds to the run directory. Its manifest is named only where a report shall show it to readers."""
    before_gate: bool = True
    """Whether the gate waits for the step."""


_LONGEST_LOAD = timedelta(days=1, minutes=10)
"""produce and inject_fault have deadlines of their own, from the scenario (Load.deadline_s, at most a day)."""
_LEDGER = Output("ledger", "every attempt and what the client was told about it")

DECLARED: tuple[Step, ...] = (
    Step(
        name="plan",
        timeout=timedelta(minutes=5),
        writes=(Output("scenario.json", "all that is needed to repeat the run"),),
    ),
    Step(name="start_cluster", timeout=timedelta(minutes=20)),  # the first run fetches the Kafka jars
    Step(name="create_topics", timeout=timedelta(minutes=5), needs_cluster=True),
    Step(
        name="produce",
        timeout=_LONGEST_LOAD,
        needs_cluster=True,
        writes=(_LEDGER, Output("produce.json", "how many attempts each producer announced and counted")),
    ),
    Step(
        name="inject_fault",
        timeout=_LONGEST_LOAD,
        needs_cluster=True,
        writes=(Output("injections.json", "what was done to the cluster, with proof"),),
    ),
    Step(
        name="settle",
        timeout=timedelta(minutes=30),
        needs_cluster=True,
        writes=(
            _LEDGER,  # the canary's
            Output("observations.json", "leaders, in-sync replicas and broker processes over time"),
            Output("offsets.json", "the snapshot: where each partition's log begins and ends"),
        ),
    ),
    Step(  # the first half of the task reconcile, with a manifest of its own: the second half can be repeated alone
        name="read_topic",
        timeout=None,
        needs_cluster=True,
        repeatable=True,
        voids=("conclude", "validate", "reconcile"),
        writes=(Output("log", "every record found in the topics"),),
    ),
    Step(
        name="reconcile",
        timeout=timedelta(hours=12),
        repeatable=True,
        voids=("conclude", "validate"),
        writes=(
            Output("anomalies", "one row per case, with its evidence"),
            Output("books", "the counts, and the laws that bind them"),
            Output("timeline", "sent, reported, errors and latency over time, and how latencies are distributed"),
        ),
    ),
    Step(
        name="validate",
        timeout=timedelta(minutes=30),
        repeatable=True,
        voids=("conclude",),
        writes=(Output("validation.json", "the expectations and how they were evaluated"),),
    ),
    Step(
        name="conclude",
        timeout=timedelta(minutes=15),
        repeatable=True,
        before_gate=False,
        writes=(Output("verdict.json", "the verdict, for machines"), Output("report.html", "this page")),
    ),
    Step(name="stop_cluster", timeout=timedelta(minutes=5), before_gate=False),
)

TIMEOUTS: dict[str, timedelta] = {step.name: step.timeout for step in DECLARED if step.timeout is not None}
"""Execution timeout per Airflow task, the last line of defence."""

BEFORE_GATE: tuple[str, ...] = tuple(step.name for step in DECLARED if step.before_gate and step.name in STEPS)
"""The tasks that must have succeeded before the gate opens."""

EVIDENCE: tuple[str, ...] = tuple(step.name for step in DECLARED if step.name in BEFORE_GATE and step.writes)
"""The tasks whose files a verdict is read off: all of them must be as they were sealed."""

MANIFESTS: frozenset[str] = frozenset(step.name for step in DECLARED)
"""The steps whose manifests a run directory may hold."""

REPEATABLE: frozenset[str] = frozenset(step.name for step in DECLARED if step.repeatable)
"""The steps that may be repeated in a stored run."""

VOIDS: dict[str, tuple[str, ...]] = {step.name: step.voids for step in DECLARED}
"""Per step the steps whose manifests go as soon as it publishes again, so that no verdict outlives the books."""

FILES: dict[str, str] = {output.name: output.meaning for step in DECLARED for output in step.writes}
"""What a run directory holds, with its meaning for readers, in the order of writing."""
