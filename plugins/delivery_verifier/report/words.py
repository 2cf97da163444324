"""Plain words: how the report names verdicts, anomalies, doubts, laws and files to someone who knows none of them."""

from __future__ import annotations

import unicodedata

from delivery_verifier.anomalies import Anomaly

SYMBOLS = {"HELD": "✔", "VIOLATED": "✘", "INCONCLUSIVE": "?", "NO VERDICT": "–"}
MEANINGS = {
    "HELD": "Everything that was claimed was found to be true, within the limits stated here.",
    "VIOLATED": "Something that was claimed is not true; the cases are shown below.",
    "INCONCLUSIVE": "This run can neither confirm nor refute the claim; the doubts say why.",
    "NO VERDICT": "The run ended before anything could be judged. Nothing is known about the claim.",
}
ROLES = {"subject": "Subject", "control": "Control", "canary": "Canary"}
ROLE_MEANINGS = {
    "subject": "the settings under test",
    "control": "settings whose result is known beforehand; shows how hard the fault bit",
    "canary": "planted errors that the check must find exactly, else the check is broken",
}
CLAIMS = {
    "contract": "what the settings themselves promise",
    "at_most_once": "no record more than once",
    "at_least_once": "no reported record lost",
    "exactly_once": "every reported record exactly once",
    "ordered": "records in the order they were sent",
}
ANOMALIES = {
    Anomaly.CORRUPTED: "Damaged",
    Anomaly.PHANTOM: "There, but never sent",
    Anomaly.LOST: "Lost",
    Anomaly.DUPLICATED: "Written more than once",
    Anomaly.RESENT: "Sent again by the application",
    Anomaly.MISPLACED: "Not at the acknowledged offset",
    Anomaly.REORDERED: "Out of order",
}
SHARE_OF = {"LOST": "reported", "MISPLACED": "acked", "REORDERED": "reported", "DUPLICATED": "attempted",
            "RESENT": "attempted", "CORRUPTED": "log_records", "PHANTOM": "log_records"}  # fmt: skip
"""The books column that an anomaly's count is a share of."""

_ADVICE = (
    ("canary", "Do not use any figure of this run. The check itself missed (or invented) a planted error: keep the "
     "run directory and report it as a bug of the verifier."),
    ("log_moved", "Something wrote to the topics after the snapshot. Find that writer (a producer left alive, a "
     "foreign client), stop it and run again."),
    ("moved", "Something wrote to the topics after the snapshot. Find that writer, stop it and run again."),
    ("ledger", "The record of what was sent is not whole (full disk, killed supervisor?). Run again; do not re-judge "
     "this directory."),
    ("law", "Two independent counts disagree. Look at the laws of the books below, then repeat "
     "`kdv reconcile` on this directory; if it stays, the read or the ledger is broken."),
    ("books", "Two independent counts disagree. Look at the laws of the books below, then repeat "
     "`kdv reconcile` on this directory; if it stays, the read or the ledger is broken."),
    ("balance", "Two independent counts disagree. Look at the laws of the books below, then repeat "
     "`kdv reconcile` on this directory."),
    ("expectation", "An expectation was not evaluated as it must be. Repeat `kdv reconcile` on this directory; look at "
     "validation.json for the one that is missing."),
    ("read", "The topics were not read completely. If the brokers are still there, repeat the reconciliation; else run "
     "again."),
    ("bite", "The fault did not take effect. Check the fault plan's target and trigger, then run again."),
    ("bit", "The fault did not take effect. Check the fault plan's target and trigger, then run again."),
    ("expos", "Too few records were in flight around the fault. Raise the rate or the number of records, or let the "
     "fault fire later, then run again."),
    ("early", "The load ended before the fault had healed. Raise the number of records or lower the rate, then run "
     "again."),
    ("disturbance", "Something else than the plan disturbed the cluster. Find its cause (load on the host, a "
     "neighbour's restart), then run again on a quiet host."),
    ("unplanned", "Something else than the plan disturbed the cluster. Find its cause, then run again on a quiet "
     "host."),
)  # fmt: skip
_ADVICE_BY_KIND = {
    "checker": "The check itself cannot be trusted here: neither HELD nor VIOLATED may be read off this run. Repeat "
    "`kdv reconcile` on this directory, and if it stays, run again.",
    "coverage": "The run did not test enough to confirm the claim. Run again with more records, a longer load or more "
    "cycles of the fault.",
}

LAWS = {
    "offsets_accounted": "every offset of the log was read: data records or control records",
    "outcomes_sum": "attempted = acked + sent + failed + indeterminate",
    "reported_sum": "reported = found + lost",
    "log_sum": "log records = first copies + extra copies + phantoms + unattributed",
    "ledger_complete": "every attempt that was announced stands in the ledger",
    "partitions_complete": "every planned partition stands in the books",
    "anomaly_rows": "as many cases are shown as were counted (or up to the bound)",
    "log_moved": "nothing was written after the snapshot",
    "start_zero": "the log begins at offset 0: nothing was deleted",
    "view_rows": "both views of the log hold what they must",
}
FILES = {
    "scenario.json": "all that is needed to repeat the run",
    "ledger": "every attempt and what the client was told about it",
    "produce.json": "how many attempts each producer announced and counted",
    "injections.json": "what was done to the cluster, with proof",
    "observations.json": "leaders, in-sync replicas and broker processes over time",
    "offsets.json": "the snapshot: where each partition's log begins and ends",
    "log": "every record found in the topics",
    "anomalies": "one row per case, with its evidence",
    "books": "the counts, and the laws that bind them",
    "timeline": "sent, reported, errors and latency over time",
    "validation.json": "the expectations and how they were evaluated",
    "verdict.json": "the verdict, for machines",
    "report.html": "this page",
}
BOUNDARY_BIDI = {"\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"}


def plain(kind: str) -> str:
    """The plain-language name of an anomaly; the kind itself if it is unknown."""
    return ANOMALIES[Anomaly(kind)] if kind in Anomaly.__members__ else kind


def advice(kind: str, name: str) -> str:
    """What to do about a doubt, by its name, else by its kind."""
    lowered = name.lower()
    for part, text in _ADVICE:
        if part in lowered:
            return text
    return _ADVICE_BY_KIND.get(kind, _ADVICE_BY_KIND["checker"])


def clean(text: object) -> str:
    """`text` without control and direction characters, which could rewrite a terminal or disguise a line."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}"
        if (unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t") or char in BOUNDARY_BIDI
        else char
        for char in str(text)
    )


def number(value: float | int | None) -> str:
    """A figure with thousands separated by commas; an en dash where there is none."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def share(count: int, whole: int) -> str:
    """`count` as a percentage of `whole` that never rounds something to nothing; empty if there is no whole."""
    if whole <= 0:
        return ""
    percent = 100 * count / whole
    if 0 < percent < 0.01:
        return "< 0.01 %"
    if 99.99 < percent < 100:
        return "> 99.99 %"
    return f"{percent:.3g} %" if percent < 100 else f"{percent:.0f} %"
