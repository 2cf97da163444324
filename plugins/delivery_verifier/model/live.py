"""The state of a run that goes on, for pages and terminals: its load and its Spark. No verdict uses this state."""

from __future__ import annotations

from msgspec import Struct


class LiveArm(Struct, frozen=True):
    """One arm of a load that is still flowing.

    * `reported`: the number of attempts that were reported so far. `records`: the planned number of records. The load
      may send more records than planned.
    * `counts`: the number of reports in each interval of `LiveLoad.interval_s` seconds, from `LiveLoad.began_us` on.
    """

    name: str
    reported: int
    records: int
    counts: list[int] = []


class Mark(Struct, frozen=True):
    """A moment at which the fault plan did something. `at_us` is in µs since the epoch. `text` says what the plan did,
    e.g. `kill broker 1`."""

    at_us: int
    text: str


RECOVERED = "recovered"
"""The text of the mark at the end of each cycle of the fault plan: all replicas are in sync again."""


class LiveLoad(Struct, frozen=True):
    """A load that is still flowing, or has just ended.

    * `began_us`: the time of the first report, in µs since the epoch; 0 if there is no report yet.
    * `interval_s`: the length of an interval of the timeline, in seconds.
    * `rate`: how many reports per second there were in the last seconds, in all arms together.
    * `fault`: the name of the fault plan, or an empty text for a run without a fault.
    * `marks`: what the fault plan has done so far, oldest first.
    """

    began_us: int
    interval_s: float
    rate: float
    fault: str
    arms: list[LiveArm]
    marks: list[Mark]


SPARK_FILE = "spark.json"
"""The name of a file in the workspace of a run: what Spark does at this moment (`LiveSpark`). The file exists only
while Spark works for the run."""


class LiveSpark(Struct, frozen=True):
    """What Spark does for a reconciliation at this moment.

    * `unit`: what `number` counts: `job` or, on a Spark Connect server, `query`. A query has one or more jobs.
    * `number`: how many jobs or queries Spark has begun so far. How many will follow is not known beforehand.
    * `done`, `tasks`: completed tasks and all tasks of the stages that run now. Both are 0 if no stage runs, or if it
      is not known which stages run.
    """

    unit: str
    number: int
    done: int = 0
    tasks: int = 0

    def __str__(self) -> str:
        """The progress in words, e.g. `job 5, 41 of 64 tasks`."""
        tasks = f", {self.done:,} of {self.tasks:,} task{'s'[: self.tasks != 1]}" if self.tasks else ""
        return f"{self.unit} {self.number:,}{tasks}"
