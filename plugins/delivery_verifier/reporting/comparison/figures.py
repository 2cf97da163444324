"""The figures of one arm that the comparison shows: counts, exposure, longest silence, throughput and latency."""

from __future__ import annotations

from delivery_verifier.model.verdict import ArmVerdict, exposed
from delivery_verifier.reporting.latency import spreads
from delivery_verifier.reporting.material import Material
from delivery_verifier.reporting.throughput import records_per_s
from delivery_verifier.reporting.words import latency, number
from delivery_verifier.run_directory.run_directory import RunDirectory

TALLY = ("attempted", "acked", "sent", "failed", "indeterminate", "reported", "found")
"""The columns of the counts that the comparison shows. It takes the numbers of anomalies from the verdict."""


def figures(material: Material, arm: ArmVerdict) -> dict[str, object]:
    """Returns the figures of one arm as text, by their names on the page. `material`: the files of the run.

    A count is None if it is not known. The throughput and the latencies are left out if they are not known.
    """
    counts: dict[str, object] = {name: number(arm.tally[name]) for name in TALLY if name in arm.tally}
    gap = None if arm.longest_gap_s is None else f"{arm.longest_gap_s:.1f} s"
    counts |= {
        "exposed records": number(exposed(arm.exposure)) if arm.exposure else None,
        "outstanding at the effect": number(exposed(arm.exposure, "outstanding")) if arm.exposure else None,
        "longest silence": gap,
    }
    return counts | _throughput(material, arm.arm) | _latency(material, arm.arm)


def _throughput(material: Material, arm: str) -> dict[str, object]:
    """Returns the throughput of `arm` as text, under the name that this figure has on the page.

    Returns an empty dictionary if the throughput is not known.
    """
    rate = material.take("ledger", lambda: records_per_s(RunDirectory(material.path), arm))
    return {} if rate is None else {"reported per second": number(round(rate))}


def _latency(material: Material, arm: str) -> dict[str, object]:
    figures: dict[str, object] = {}
    for spread in spreads(material):
        if spread.arm == arm:
            half, ninety_nine = spread.bounds_ms[:2]
            when = "during faults" if spread.inside else "outside faults"
            figures |= {
                f"latency {when}, half within": latency(half),
                f"latency {when}, 99 % within": latency(ninety_nine),
            }
    return figures
