"""The lint of what people read: short sentences, direct English, and headings without words that nobody explains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import prose

from delivery_verifier import catalogue
from delivery_verifier.contract.rules import RULES
from delivery_verifier.contract.strength import STRENGTH_ORDERS
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.pages.doubts import ADVICE, BY_KIND
from delivery_verifier.pages.report import page
from delivery_verifier.store.tables import TABLES

PAGES = Path(page.__file__).parents[1]
NAMES = {name.lower() for name in (*Anomaly.__members__, *CLAIMS, "HELD", "VIOLATED", "INCONCLUSIVE")}


@pytest.fixture(scope="module")
def known() -> set[str]:
    """The words that headings may have because the glossary or a page of their own explains them."""
    return prose.glossary() | NAMES


def test_the_glossary_explains_twenty_one_words() -> None:
    assert len(prose.glossary()) == 21


@pytest.mark.parametrize("document", prose.documents(), ids=lambda path: str(path.relative_to(prose.ROOT)))
def test_a_document_has_short_and_direct_sentences(document: Path) -> None:
    text = document.read_text()
    assert prose.long_sentences(text) == []
    assert prose.indirect(text) == []


@pytest.mark.parametrize("document", prose.documents(), ids=lambda path: str(path.relative_to(prose.ROOT)))
def test_a_heading_has_only_words_that_are_explained(document: Path, known: set[str]) -> None:
    headings = prose.headings(document.read_text())
    explained_below = {"catalogue.md": {*catalogue.ENTRIES}, "run-directory.md": {table.name for table in TABLES}}
    headings = [heading for heading in headings if heading not in explained_below.get(document.name, set())]
    assert {heading: prose.unknown_in(heading, known) for heading in headings if prose.unknown_in(heading, known)} == {}


def test_a_page_has_only_headings_that_are_explained(known: set[str]) -> None:
    templates = "".join(template.read_text() for template in PAGES.rglob("*.j2"))
    headings = {" ".join(heading.split()) for heading in re.findall(r"<h2[^>]*>([^<{]+)<", templates)}
    assert {"Why", "What to change", "What this run does not show"} <= headings
    assert {heading: prose.unknown_in(heading, known) for heading in headings if prose.unknown_in(heading, known)} == {}


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


def test_a_word_that_nobody_explains_would_be_seen() -> None:
    assert prose.unknown_in("The frobnicator and the ledgers", {"ledger"}) == {"frobnicator"}
