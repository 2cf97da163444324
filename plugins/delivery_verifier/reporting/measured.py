"""The measured price of settings. The figures come from the newest price runs whose run directories stand beside that
of the reported run, i.e. on the same host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa

from delivery_verifier.catalogue.prices import Condition
from delivery_verifier.model.client import VersionedClient
from delivery_verifier.reporting.price.price import MeasuredRun, measure
from delivery_verifier.reporting.words import latency, number
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory

_CONDITIONS: tuple[Condition, ...] = ("flat_out", "none")
_UNREADABLE = (OSError, ValueError, KeyError, StopIteration, IncompleteRun, pa.ArrowException, msgspec.MsgspecError)


@dataclass(frozen=True)
class Measured:
    """The price of settings on this host as text.

    * `speed`: the throughput, e.g. `81,300 records/s`; empty if it was not measured.
    * `latency`: the latency that 99 % of the records do not exceed; empty if it was not measured.
    * `day`: the day of the newest run that gave these figures, in UTC.
    * `unmeasured`: the profile for which `kdv price` can measure the missing price. Empty if the price was measured, or
      cannot be measured.
    * `rank`: the sort key of the price. The highest throughput comes first. Prices that were not measured come last.
    """

    speed: str = ""
    latency: str = ""
    day: str = ""
    unmeasured: str = ""
    rank: float = 0.0


class PriceRuns:
    """The runs of price scenarios on this host.

    `runs`: the folder of the run directories. None: nothing was measured.
    """

    def __init__(self, runs: Path | None) -> None:
        self._runs: dict[str, list[tuple[str, Path]]] = {}
        for path in sorted(runs.iterdir()) if runs is not None and runs.is_dir() else []:
            try:
                if b'"price.' not in (path / "scenario.json").read_bytes():
                    continue
                scenario = RunDirectory(path).read_scenario()
            except _UNREADABLE:
                continue
            # Prices of advice are those of the installed librdkafka.
            if any(arm.versioned_client != VersionedClient() for arm in scenario.subjects):
                continue
            self._runs.setdefault(scenario.name, []).append((scenario.created_at, path))

    def price_of(self, profile: str) -> Measured:
        """Returns the price of `profile`, from the newest run under each condition.

        If `profile` is empty, `kdv price` cannot measure the settings, and the result is empty, too.
        """
        if not profile:
            return Measured()
        flat_out, rated = (self._newest(f"price.{condition}.{profile}") for condition in _CONDITIONS)
        speed = flat_out[1].records_per_s if flat_out else None
        ms = rated[1].latency_ms_p99 if rated else None
        if speed is None and ms is None:
            return Measured(unmeasured=profile)
        return Measured(
            speed="" if speed is None else f"{number(round(speed))} records/s",
            latency="" if ms is None else latency(ms),
            day=max(run[0] for run in (flat_out, rated) if run)[:10],
            rank=-(speed or 1.0),
        )

    def _newest(self, name: str) -> tuple[str, MeasuredRun] | None:
        """Returns the time when the newest run of the price scenario `name` was planned, and the figures of this run.
        Returns None if no such run can be read."""
        for created_at, path in sorted(self._runs.get(name, ()), reverse=True):
            try:
                return created_at, measure(path, RunDirectory(path).read_scenario())
            except _UNREADABLE:
                continue
        return None
