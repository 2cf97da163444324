"""The proofs: sentences and small tables that prove that a fault took effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from delivery_verifier.model.history import Injection
from delivery_verifier.reporting.report.events import partitions_text
from delivery_verifier.reporting.words import number

TEXT_SHOWN = 800
"""The greatest number of characters that are shown of one value of a proof."""
ROWS_SHOWN = 40
"""The greatest number of rows that are shown of one table of a proof."""
TITLES = {
    "before": "Leaders before the fault",
    "leader_moved": "Leaders while the fault acted: others than its targets",
    "re_elected": "Leaders after the election",
    "deposed": "Leaders while the fault acted: its targets led nothing",
    "leaderless": "Partitions without a leader",
    "isr_shrunk": "Replicas in sync while the fault acted: without its targets",
    "elected": "Leaders after the election that was asked for",
    "coordinator_moved": "Coordinators of transactions while the fault acted",
    "coordinated": "Partitions of the transaction log that the targets led",
    "process": "Right after the action",
    "process_before_heal": "Just before the fault was healed",
    "waited_for": "Waited for",
    "wanted": "The effect that had to be seen",
    "ordered": "Commands that were run: they only order, and prove nothing",
    "brief": "Too short for the controller to notice",
    "observed": "What was seen from outside, by the time since the begin",
    "assumed": "Assumed of the brokers",
}
"""Maps the name of a part of a proof to what people read. Another name is shown with spaces for underscores."""


@dataclass(frozen=True)
class ProofTable:
    """One table: `title`, `headings` of the columns, and the texts of its `rows`."""

    title: str
    headings: list[str]
    rows: list[list[str]]


@dataclass
class Proof:
    """The proof of one injection. `cut`: whether a table or a text is not shown in full."""

    sentences: list[str] = field(default_factory=list)
    tables: list[ProofTable] = field(default_factory=list)
    cut: bool = False


def proof_of(injection: Injection) -> Proof:
    """Returns the proof that the fault of `injection` took effect."""
    proof = Proof()
    for name, value in injection.proof.items():
        _add(proof, _title(str(name)), value)
    return proof


def hit_lines(injection: Injection) -> list[tuple[str, str]]:
    """Returns a pair for each topic that `injection` touched: the name of the topic, and the numbers of the touched
    partitions as text."""
    return [(topic, partitions_text(partitions)) for topic, partitions in injection.hit.items()]


def _add(proof: Proof, title: str, value: Any) -> None:
    """Adds `value`, a part of a proof, to `proof`, under the title `title`.

    If `value` is a mapping whose values are all mappings, e.g. facts per partition, it becomes a table. If these inner
    mappings contain mappings, too, each inner mapping is added as a part of its own. Any other value becomes a
    sentence.
    """
    if not isinstance(value, Mapping) or not value:
        return _add_sentence(proof, title, _text(value))
    parts = [part for part in value.values() if isinstance(part, Mapping)]
    if len(parts) < len(value):
        return _add_sentence(proof, title, ", ".join(f"{_words(name)} {_text(part)}" for name, part in value.items()))
    if any(isinstance(inner, Mapping) for part in parts for inner in part.values()):
        for name, part in value.items():
            _add(proof, f"{title}: {_words(name)}", part)
        return None
    columns = list(dict.fromkeys(name for part in parts for name in part))
    rows = [[str(name), *(_text(part.get(column), column) for column in columns)] for name, part in value.items()]
    proof.tables.append(ProofTable(title, ["of", *map(_words, columns)], rows[:ROWS_SHOWN]))
    proof.cut |= len(rows) > ROWS_SHOWN
    return None


def _add_sentence(proof: Proof, title: str, text: str) -> None:
    proof.cut |= len(text) > TEXT_SHOWN
    end = " ..." if len(text) > TEXT_SHOWN else "" if text.endswith(".") else "."
    proof.sentences.append(f"{title}: {text[:TEXT_SHOWN]}{end}")


def _text(value: Any, column: str = "") -> str:
    """Returns one value as text, e.g. `1, 2`. None and an empty list become `none`. In the column `leader`, -1 becomes
    `none`, too."""
    if value is None or value == [] or (column == "leader" and value == -1):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{_words(name)} {_text(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_text(part) for part in value)
    return _words(value)


def _title(name: str) -> str:
    words = _words(name)
    return TITLES.get(name, words[:1].upper() + words[1:])


def _words(name: object) -> str:
    """Returns a name of a proof in words, e.g. `passed (ms)` for `passed_ms`. A name with a dash or a space, e.g. of a
    topic, stays unchanged."""
    text = str(name)
    if "-" in text or " " in text:
        return text
    words = text.replace("_", " ").strip()
    return f"{words[:-3]} (ms)" if words.endswith(" ms") else words
