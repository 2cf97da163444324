"""Rules of style for texts that people read: how long a sentence may be, and phrases that must be read twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_WORDS = 35
"""The greatest number of words in a sentence."""
INDIRECT = {
    r"\b[Ww]hoever\b": "name the reader, the client or the program",
    r"(?:^|[:;.!] |\*\*|\| )[Ww]ho (?!is\b|was\b|decides\b)[a-z]+s\b": "say: a consumer that ..., a producer that ...",
    r"\bbefell\b": "say: happened to",
    r"\bso many\b": "say the number",
    r"(?<!client )\b(?:is|are|was|were|be|and) told\b(?! (?:from|to)\b)": "say: shown, printed, reported",
    r"\band yet\b": "say: but",
    r"\bhence\b": "say: so",
}
"""Phrases that a stranger must read twice, each with what to do about it."""
_MARKED = re.compile(r"\]\([^)]*\)|<[^>]+>")
_ITEM = re.compile(r"(?:[*-]|(\d+)\.) ")
_END = re.compile(r"(?<=[.!?])[)*\"]*\s+(?=[^a-z])|(?<=\w\.)\*\*\s+")


def documents() -> list[Path]:
    """Returns the pages that users and contributors read. Decisions and results are dated, and stay as
    they were."""
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "tests/README.md",
        ROOT / "bench/README.md",
        ROOT / "changes/README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "docs/results/README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs/reference").glob("*.md")),
    ]


def paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs, list items and table cells of a Markdown text, without code blocks and headings."""
    text = re.sub(r"<!--.*?-->|^```.*?^```$", "\n", text, flags=re.MULTILINE | re.DOTALL)
    collected, items = list[str](), 0
    for line in [*map(str.strip, text.splitlines()), ""]:
        item = _ITEM.match(line)
        if item and item[1]:  # a line may begin with the last word of a sentence, e.g. with 69
            item = item if int(item[1]) == items + 1 else None
            items += bool(item)
        items = items if line else 0
        if (not line or line[0] in "#|" or item) and collected:
            yield " ".join(collected)
            collected = []
        if line.startswith("|"):
            yield from (cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|")))
        elif line and not line.startswith("#"):
            collected.append(line[item.end() :] if item else line)


def sentences(paragraph: str) -> list[str]:
    """Returns the sentences of a paragraph. A piece of code counts as one word, and the address of a link as none."""
    return _END.split(_MARKED.sub("]", re.sub(r"`[^`]*`", "`code`", paragraph)))


def word_count(sentence: str) -> int:
    """Returns the number of words, i.e. of pieces with a letter or digit between spaces."""
    return sum(bool(re.search(r"\w", piece)) for piece in sentence.split())


def long_sentences(text: str) -> list[str]:
    """Returns the sentences of a Markdown text with more than MOST_WORDS words, each with their number."""
    every = [sentence for paragraph in paragraphs(text) for sentence in sentences(paragraph)]
    return [f"{word_count(each)} words: {each}" for each in every if word_count(each) > MOST_WORDS]


def indirect(text: str) -> list[str]:
    """Returns the phrases of INDIRECT in a text, each with its surroundings and what to do about it."""
    plain = " ".join(re.sub(r"`[^`]*`", "`code`", text).split())
    return [
        f"...{plain[max(0, match.start() - 40) : match.end() + 40]}...: {instead}"
        for phrase, instead in INDIRECT.items()
        for match in re.finditer(phrase, plain)
    ]
