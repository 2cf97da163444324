"""The words of the pages: plain names of verdicts, roles, claims and anomalies, and functions that format figures."""

from __future__ import annotations

import unicodedata

from delivery_verifier.model import claims
from delivery_verifier.model.anomalies import KINDS, Anomaly
from delivery_verifier.model.data import Setting
from delivery_verifier.model.scenario import ON_SIGTERM, Arm

SYMBOLS = {"HELD": "✔", "VIOLATED": "✘", "INCONCLUSIVE": "?", "NO VERDICT": "–", "RUNNING": "▸", "QUEUED": "…"} | {
    "SKIPPED": "»"
}
MEANINGS = {
    "HELD": "Everything that was claimed was found to be true, within the limits stated here.",
    "VIOLATED": "Something that was claimed is not true; the cases are shown below.",
    "INCONCLUSIVE": "This run can neither confirm nor refute the claim; the doubts say why.",
    "NO VERDICT": "The run ended before anything could be judged. Nothing is known about the claim.",
}
ROLES = {"subject": "Subject", "control": "Control", "canary": "Canary"}
ROLE_MEANINGS = {
    "subject": "the settings under test",
    "control": "settings whose result is known beforehand; shows how hard the fault hit",
    "canary": "planted errors that the check must find exactly, else the check is broken",
}
CLAIMS = {claim: kind.meaning for claim, kind in claims.CLAIMS.items()}
BOUNDARY_BIDI = {"\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"}
"""The Unicode characters that begin or end a change of the writing direction, such as RIGHT-TO-LEFT OVERRIDE."""


def plain_name(kind: str) -> str:
    """Returns the name of an anomaly in plain language, e.g. `Out of order`. Returns `kind` itself if `kind` is
    unknown."""
    return KINDS[Anomaly(kind)].name if kind in Anomaly.__members__ else kind


def record_that_is(kind: str) -> str:
    """Returns the end of the phrase `a record that is ...` for an anomaly, e.g. `damaged`.

    Returns `kind` itself if it is not the name of an anomaly.
    """
    return KINDS[Anomaly(kind)].record_that_is if kind in Anomaly.__members__ else kind


CLIENT = "client"
"""The name under which the tables of settings show the client of an arm."""


def producer_properties(arm: Arm) -> dict[str, Setting]:
    """Returns the properties of the arm's producing program: its client, the settings of its producers, and what it
    does on SIGTERM, if the run sent that."""
    end: dict[str, Setting] = {"program": ON_SIGTERM[arm.on_sigterm]} if arm.on_sigterm else {}
    return {CLIENT: arm.versioned_client.words, **arm.producer, **end}


def clean(text: object) -> str:
    """Returns the text with U+FFFD instead of each character that could deceive a reader.

    These are control characters, surrogates, and the characters of BOUNDARY_BIDI. Control characters can overwrite text
    on a terminal, and the characters of BOUNDARY_BIDI can reverse text. Newlines and tabs stay.
    """
    return "".join(
        "\N{REPLACEMENT CHARACTER}"
        if (unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t") or char in BOUNDARY_BIDI
        else char
        for char in str(text)
    )


def number(value: float | int | None) -> str:
    """Returns a figure as text with commas between thousands. A float gets one decimal.

    Returns an en dash if `value` is None.
    """
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def latency(ms: float) -> str:
    """Returns a latency of `ms` milliseconds as text, with at least three significant digits and no exponent.

    An example is `12.6 ms`. From one second on, the unit is seconds, e.g. `3.16 s`. A latency below 0.001 ms becomes `0
    ms`.
    """
    if ms < 999.5:  # from there on it would be rounded to 1,000 ms
        return f"{ms:.3g} ms" if ms >= 0.001 else "0 ms"
    seconds = ms / 1000
    return f"{seconds:.3g} s" if seconds < 99.95 else f"{seconds:,.0f} s"


def without_verdict(sentence: str, verdict: str) -> str:
    """Returns `sentence` without `<verdict>:` at its start, e.g. without `HELD:`.

    The result begins with a capital letter. Pages show the verdict beside the sentence. If `sentence` does not start
    with `<verdict>:`, returns it unchanged.
    """
    rest = sentence.removeprefix(f"{verdict}:").strip()
    return rest[:1].upper() + rest[1:] if rest != sentence else sentence


def headline(sentence: str) -> tuple[str, str]:
    """Splits `sentence` at its first `; ` or `. `.

    Returns two texts: the first part with a full stop, and the rest with a capital letter. If `sentence` has neither
    separator, the first text is `sentence` itself, and the second text is empty.
    """
    ends = [end for end in (sentence.find("; "), sentence.find(". ")) if end >= 0]
    if not ends:
        return sentence, ""
    head, rest = sentence[: min(ends)], sentence[min(ends) + 2 :]
    return f"{head}.", rest[:1].upper() + rest[1:]
