"""The steps of a run: what each step writes, how long each step may take, and which steps a verdict rests on.

A step collects its files, and then *publishes* them, that is, moves them into the run directory. At the end it writes
its *manifest*: the file `<name of the step>.json`, with a checksum of every file that the step published. The *gate* is
the step `conclude`, which gives the verdict.

`DECLARED` has one entry per step. All other lists of steps are derived from it. The order of the steps also stands in
the code of `pipeline/direct.py` and `orchestration/tasks/graph.py`, which perform the steps.
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
"""The name of a step that is an Airflow task. Type checkers need the names as literals. A test compares the names with
`DECLARED`."""
STEPS: tuple[StepName, ...] = get_args(StepName)
"""All names of steps that are Airflow tasks, in the order in which the steps are performed."""

GATE: Final = "conclude"
"""The step that gives the verdict. This step waits for the steps before it, and fails if one of these steps did not
succeed."""


class Output(Struct, frozen=True):
    """A file or folder that a step writes. `name` is the path in the run directory.

    `meaning` explains the file or folder to readers of a report.
    """

    name: str
    meaning: str
    if_applied: bool = False
    """Whether only runs in which an arm has an application have the file or folder."""


class Step(Struct, frozen=True, kw_only=True):
    """One step of a run, as data."""

    name: StepName | Literal["read_topic"]
    doing: str
    """What the step does, in words for people who watch the run. The load has words of its own (`progress.phases`)."""
    timeout: timedelta | None
    """The execution timeout of the step's Airflow task. The value is None if the step has no task of its own."""
    repeatable: bool = False
    """Whether the step may be repeated in a stored run, that is, in the run directory of a run that has ended. The
    output of such a step depends only on the run directory. The exception is read_topic, which reads the topics."""
    voids: tuple[str, ...] = ()
    """The steps whose output is no longer valid when this step publishes its output again. The manifests of these steps
    are removed in this order. conclude comes first, so that the verdict never outlives the output on which it rests."""
    rests_on: tuple[str, ...] = ()
    """The steps whose output this step reads, directly or through other steps. The manifest of this step has the
    digests of the manifests of these steps."""
    writes: tuple[Output, ...] = ()
    """The files and folders that the step adds to the run directory, and that the report lists. A manifest that the
    report does not list is left out."""
    before_gate: bool = True
    """Whether the step must have succeeded before the gate, the step conclude, gives a verdict."""


_LONGEST_LOAD = timedelta(days=1, minutes=10)
"""The execution timeout of produce and inject_fault. The deadline from the scenario (Load.deadline_s, at most a day)
normally ends these steps earlier."""
_LEDGER = Output("ledger", "every attempt and what the client reported about it")
_LOAD = ("plan", "produce", "inject_fault")
"""The steps that are over when the load is over."""

DECLARED: tuple[Step, ...] = (
    Step(
        name="plan",
        doing="planning the run",
        timeout=timedelta(minutes=5),
        writes=(Output("scenario.json", "all that is needed to repeat the run"),),
    ),
    Step(
        name="start_cluster",
        doing="starting the cluster",
        timeout=timedelta(minutes=20),  # the first run on a host downloads the Kafka jars
        rests_on=("plan",),
    ),
    Step(
        name="create_topics",
        doing="creating the topics",
        timeout=timedelta(minutes=5),
        rests_on=("plan",),
    ),
    Step(
        name="produce",
        doing="sending the load",
        timeout=_LONGEST_LOAD,
        rests_on=("plan",),
        writes=(_LEDGER, Output("produce.json", "how many attempts each producer announced and counted")),
    ),
    Step(
        name="inject_fault",
        doing="preparing the fault",
        timeout=_LONGEST_LOAD,
        rests_on=("plan",),
        writes=(Output("injections.json", "what was done to the cluster, with proof"),),
    ),
    Step(
        name="settle",
        doing="proving where the logs end",
        timeout=timedelta(minutes=30),
        rests_on=_LOAD,
        writes=(
            _LEDGER,  # the ledger of the canary
            Output("effects", "every application of a record by a member of an application", if_applied=True),
            Output("journal", "what the members of applications say they did", if_applied=True),
            Output("group_log", "what brokers wrote down of the commits of applications", if_applied=True),
            Output("observations.json", "leaders, in-sync replicas and broker processes over time"),
            Output("offsets.json", "the snapshot: where each partition's log begins and ends"),
            Output("replicas.parquet", "what each replica of a partition holds, and where it differs from its leader"),
        ),
    ),
    # The first half of the task reconcile. A manifest of its own lets the second half be repeated alone.
    Step(
        name="read_topic",
        doing="Spark reads the topics",
        timeout=None,
        repeatable=True,
        voids=("conclude", "validate", "reconcile"),
        rests_on=(*_LOAD, "settle"),
        writes=(Output("log", "every record found in the topics"),),
    ),
    Step(
        name="reconcile",
        doing="Spark compares ledger and log",
        timeout=timedelta(hours=12),
        repeatable=True,
        voids=("conclude", "validate"),
        rests_on=(*_LOAD, "settle", "read_topic"),
        writes=(
            Output("anomalies", "one row per case, with its evidence"),
            Output("counts", "the counts, and the invariants that bind them"),
            Output("timeline", "sent, reported, errors and latency over time, and how latencies are distributed"),
        ),
    ),
    Step(
        name="validate",
        doing="Great Expectations evaluates the counts",
        timeout=timedelta(minutes=30),
        repeatable=True,
        voids=("conclude",),
        rests_on=(*_LOAD, "settle", "read_topic", "reconcile"),
        writes=(Output("validation.json", "the expectations and how they were evaluated"),),
    ),
    Step(
        name="conclude",
        doing="giving the verdict",
        timeout=timedelta(minutes=15),
        repeatable=True,
        before_gate=False,
        rests_on=(*_LOAD, "settle", "read_topic", "reconcile", "validate"),
        writes=(Output("verdict.json", "the verdict, for machines"), Output("report.html", "this page")),
    ),
    Step(name="stop_cluster", doing="stopping the cluster", timeout=timedelta(minutes=5), before_gate=False),
)

DOING: dict[str, str] = {step.name: step.doing for step in DECLARED}
"""Maps each step to what it does, in words (`Step.doing`)."""

TIMEOUTS: dict[str, timedelta] = {step.name: step.timeout for step in DECLARED if step.timeout is not None}
"""The execution timeout of each Airflow task, by name. Airflow ends a task that takes longer."""

BEFORE_GATE: tuple[str, ...] = tuple(step.name for step in DECLARED if step.before_gate and step.name in STEPS)
"""The tasks that must have succeeded before the gate, the step conclude, gives a verdict."""

EVIDENCE: tuple[str, ...] = tuple(step.name for step in DECLARED if step.name in BEFORE_GATE and step.writes)
"""The tasks whose files a verdict rests on. The gate, the step conclude, checks that each file still has the checksum
in its manifest."""

MANIFESTS: frozenset[str] = frozenset(step.name for step in DECLARED)
"""The names of all steps. Each step may have a manifest, its list of files with checksums, in a run directory."""

REPEATABLE: frozenset[str] = frozenset(step.name for step in DECLARED if step.repeatable)
"""The steps that may be repeated in a stored run."""

REQUIRES: dict[str, tuple[str, ...]] = {step.name: step.rests_on for step in DECLARED}
"""Maps a step to the steps on whose output its own output rests (`Step.rests_on`)."""

VOIDS: dict[str, tuple[str, ...]] = {step.name: step.voids for step in DECLARED}
"""Maps a step to the steps whose manifests are removed when it publishes its output again (`Step.voids`)."""

IF_APPLIED: frozenset[str] = frozenset(output.name for step in DECLARED for output in step.writes if output.if_applied)
"""The files and folders that only runs with an application have."""

FILES: dict[str, str] = {output.name: output.meaning for step in DECLARED for output in step.writes}
"""Maps each file or folder of a run directory to its meaning, in the order in which the steps write them."""
