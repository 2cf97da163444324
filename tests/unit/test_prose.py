"""The lint of what people read: short sentences on pages, and direct English in what the program says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import prose

from delivery_verifier import catalogue
from delivery_verifier.advice.doubts import ADVICE, BY_KIND
from delivery_verifier.contract.rules import RULES
from delivery_verifier.contract.strength import STRENGTH_ORDERS
from delivery_verifier.pages.report import page

PAGES = Path(page.__file__).parents[1]


@pytest.mark.parametrize("document", prose.documents(), ids=lambda path: str(path.relative_to(prose.ROOT)))
def test_a_document_has_short_sentences(document: Path) -> None:
    assert prose.long_sentences(document.read_text()) == []


def texts() -> Iterator[tuple[str, str]]:
    """Yields the sentences of the program that people read, each with its place."""
    for entry in catalogue.ENTRIES.values():
        yield entry.name, f"{entry.title}. {entry.promise} {entry.fault.summary}"
    for rule in RULES:
        yield rule.id, f"{rule.sentence} {rule.java}"
    for order in STRENGTH_ORDERS:
        yield order.field, order.sentence
    yield from {**ADVICE, **BY_KIND}.items()
    for template in sorted(PAGES.rglob("*.j2")):
        yield template.name, re.sub(r"\{[{%#].*?[}%#]\}|<[^>]+>", " ", template.read_text(), flags=re.S)


def test_what_the_program_says_is_direct() -> None:
    assert {place: prose.indirect(text) for place, text in texts() if prose.indirect(text)} == {}


@pytest.mark.parametrize(
    "text",
    [
        "It is over. Who reads committed sees every transaction.",
        "Whoever commits first is right.",
        "That is what befell the coordinator.",
        "Defaults fill the gaps, and are told.",
        "Of 2 faults, so many hurt an arm.",
    ],
)
def test_what_must_be_read_twice_would_be_seen(text: str) -> None:
    assert len(prose.indirect(text)) == 1


def test_direct_english_is_no_finding() -> None:
    assert prose.indirect("Who decides? What the client was told is in the ledger, and cannot be told from luck.") == []


def test_a_sentence_is_counted_word_by_word() -> None:
    text = f"# A {'long ' * 40}heading\n\nShort. The {'word ' * 34}`a b c`. Short, too.\n\n| {'cell ' * 36}| b |\n"
    assert [line.split(":")[0] for line in prose.long_sentences(text)] == ["36 words", "36 words"]
    assert prose.long_sentences(f"with exit code\n69. {'word ' * 30} end.\n") == []
