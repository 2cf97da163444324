"""The state of a load that is still flowing, for pages and terminals. No verdict uses this state."""

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
