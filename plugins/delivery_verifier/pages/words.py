"""Plain words: the names of verdicts, roles, claims and anomalies for a newcomer, and how pages write figures."""

from __future__ import annotations

import unicodedata

from delivery_verifier.model import claims
from delivery_verifier.model.anomalies import KINDS, Anomaly

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
CLAIMS = {claim: kind.meaning for claim, kind in claims.CLAIMS.items()}
BOUNDARY_BIDI = {"\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"}


def plain_name(kind: str) -> str:
    """The plain-language name of an anomaly; the kind itself if it is unknown."""
    return KINDS[Anomaly(kind)].name if kind in Anomaly.__members__ else kind


def record_that_is(kind: str) -> str:
    """The end of the phrase `a record that is ...` for an anomaly; the kind itself if it is unknown."""
    return KINDS[Anomaly(kind)].record_that_is if kind in Anomaly.__members__ else kind


def enumeration(parts: list[str], last: str = "or") -> str:
    """The parts as `a, b or c`; empty if there are none."""
    return f" {last} ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def clean(text: object) -> str:
    """`text` without control characters, which rewrite a terminal, and direction characters, which disguise a line."""
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


def latency(ms: float) -> str:
    """A latency to three digits with a unit that suits it, e.g. `12.6 ms`, `3.16 s`."""
    return f"{ms / 1000:,.3g} s" if ms >= 1000 else f"{ms:.3g} ms"


def share(count: int, whole: int) -> str:
    """`count` as a percentage of `whole`, never rounded to 0 or 100 unless exact; empty if `whole` is not positive."""
    if whole <= 0:
        return ""
    percent = 100 * count / whole
    if 0 < percent < 0.01:
        return "< 0.01 %"
    if 99.99 < percent < 100:
        return "> 99.99 %"
    return f"{percent:.3g} %" if percent < 100 else f"{percent:.0f} %"


def without_verdict(sentence: str, verdict: str) -> str:
    """`sentence` without the verdict in front: the page shows the verdict as a badge beside the sentence."""
    rest = sentence.removeprefix(f"{verdict}:").strip()
    return rest[:1].upper() + rest[1:] if rest != sentence else sentence


def headline(sentence: str) -> tuple[str, str]:
    """The first clause of `sentence` as a sentence of its own, and the rest. The first `; ` or `. ` separates them."""
    ends = [end for end in (sentence.find("; "), sentence.find(". ")) if end >= 0]
    if not ends:
        return sentence, ""
    head, rest = sentence[: min(ends)], sentence[min(ends) + 2 :]
    return f"{head}.", rest[:1].upper() + rest[1:]
