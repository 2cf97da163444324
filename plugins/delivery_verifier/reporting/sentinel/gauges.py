"""The gauges of a sentinel for Prometheus: a file in the folder of a textfile collector, one per cluster.

The format is Prometheus' text format, version 0.0.4. Names and units follow
https://prometheus.io/docs/practices/naming/: base units, and `_total` for counters alone. No sample has a time of its
own, because the textfile collector refuses such a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from delivery_verifier.model.sentinel import IN_TIME_MS, STATES, SentinelArm, SentinelResult
from delivery_verifier.model.verdict import WORST_FIRST
from delivery_verifier.run_directory import sentinel_history

_LOOKED_AT = 1_000
"""How many results are looked at for the newest one that was not skipped."""


class Sample(Struct, frozen=True):
    """A value, with its labels."""

    labels: Mapping[str, str]
    value: float | int


class Metric(Struct, frozen=True):
    """A metric with its samples. `kind` is `gauge` or `counter`."""

    name: str
    kind: str
    help: str
    samples: list[Sample]


def write(folder: Path, cluster: str) -> Path:
    """Writes the gauges of the newest results of `cluster` into `folder`, and returns the file.

    The collector may read at any moment: the file is written under another name, and then renamed. Raises OSError if
    the folder does not exist or cannot be written.
    """
    results = sentinel_history.newest_of(cluster, _LOOKED_AT).results
    file = folder / f"kdv_sentinel_{quote(cluster, safe='')}.prom"
    partial = folder / f".{file.name}.{os.getpid()}"
    try:
        partial.write_text(text(metrics(results)), encoding="utf-8", newline="\n")
        partial.chmod(0o644)  # the collector is another user
        os.replace(partial, file)
    finally:
        partial.unlink(missing_ok=True)
    return file


def metrics(results: list[SentinelResult]) -> list[Metric]:
    """Returns the metrics of one cluster. `results` are its newest results, newest first. SKIPPED runs only count in
    the counter: the gauges are those of the newest run that was not skipped."""
    last = next((result for result in results if result.state != "SKIPPED"), None)
    counted = [_runs(results[0])] if results else []
    return [*counted, *_of_last(last)] if last else counted


def _runs(newest: SentinelResult) -> Metric:
    samples = [Sample({"cluster": newest.cluster, "verdict": state}, newest.totals.get(state, 0)) for state in STATES]
    return Metric("kdv_sentinel_runs_total", "counter", "Runs of the sentinel, by how they ended.", samples)


def _of_last(last: SentinelResult) -> list[Metric]:
    whole, arms = {"cluster": last.cluster}, last.arms
    ended = [state for state in STATES if state != "SKIPPED"]
    return [
        Metric(
            "kdv_sentinel_last_run_timestamp_seconds",
            "gauge",
            "When the last run ended that was not skipped, in seconds since the epoch.",
            [Sample(whole, last.at_us / 1e6)],
        ),
        Metric(
            "kdv_sentinel_last_run_verdict",
            "gauge",
            "Whether the last run ended like this.",
            [Sample({**whole, "verdict": state}, int(state == last.state)) for state in ended],
        ),
        Metric(
            "kdv_sentinel_verdict",
            "gauge",
            "Whether the last run gave the arm this verdict.",
            [
                Sample(_labels(last, arm) | {"verdict": verdict}, int(verdict == arm.verdict))
                for arm in arms
                for verdict in WORST_FIRST
            ],
        ),
        _per_arm(last, "attempted_records", "Records that the last run attempted to send.", "attempted"),
        _per_arm(last, "acknowledged_records", "Records of the last run that were acknowledged.", "acknowledged"),
        _per_arm(
            last,
            "acknowledged_in_time_records",
            f"Records of the last run that were acknowledged within {IN_TIME_MS / 1e3:g} s.",
            "in_time",
        ),
        Metric(
            "kdv_sentinel_ack_latency_seconds",
            "gauge",
            "Quantiles of the time to the acknowledgement in the last run.",
            [
                Sample(_labels(last, arm) | {"quantile": quantile}, ms / 1e3)
                for arm in arms
                for quantile, ms in (("0.5", arm.latency_ms_p50), ("0.99", arm.latency_ms_p99))
                if ms is not None
            ],
        ),
    ]


def _per_arm(last: SentinelResult, name: str, meaning: str, field: str) -> Metric:
    samples = [Sample(_labels(last, arm), getattr(arm, field)) for arm in last.arms]
    return Metric(f"kdv_sentinel_{name}", "gauge", meaning, samples)


def _labels(last: SentinelResult, arm: SentinelArm) -> dict[str, str]:
    return {"cluster": last.cluster, "arm": arm.arm}


def text(metrics: Iterable[Metric]) -> str:
    """Returns `metrics` in the text format. A metric without samples is left out."""
    lines = list[str]()
    for metric in metrics:
        if metric.samples:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
            lines += [f"{metric.name}{_in_braces(sample.labels)} {sample.value!r}" for sample in metric.samples]
    return "".join(f"{line}\n" for line in lines)


def _in_braces(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
