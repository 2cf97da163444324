"""Rules of style for texts that people read: how long a sentence may be, which words a heading may have, and phrases
that must be read twice."""

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
    """Returns the pages that users and contributors read. Decisions and results are dated, and stay as they were."""
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "tests/README.md",
        *sorted((ROOT / "docs").glob("*.md")),
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


def headings(text: str) -> list[str]:
    """Returns the headings of a Markdown text, without pieces of code."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [re.sub(r"`[^`]*`", "", line) for line in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]


def glossary() -> set[str]:
    """Returns the words that docs/glossary.md explains, in lower case."""
    rows = re.findall(r"^\| \*\*([^|]+)\*\* \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    return {word.strip().lower() for row in rows for word in row.split(",")}


def unknown_in(heading: str, known: set[str]) -> set[str]:
    """Returns the words of a heading that are neither ordinary nor in `known`, in lower case. Plurals count as known if
    their singular is."""
    words = {word.lower().strip(".'") for word in re.findall(r"[A-Za-z_][A-Za-z_.'-]+", heading)}
    allowed = known | {part for phrase in known for part in phrase.split()} | set(ORDINARY.split())
    return {word for word in words if word not in allowed and word.removesuffix("s") not in allowed}


ORDINARY = """
text
about acknowledgement acks action addresses airflow all although am an and anomalies answer anything are as became
become benchmark beside big bit broker by can case catalogue change ci class classes client cluster comma command
configurations consumer contributing copies cost could count cut database decides default detail dies directory
distribution disturbance do docker-compose.yml does door duplicate each effect end event every everyday everything
exactly expectation exposure extending field figure file finding first five for format found four gap glossary go
group guarantee guide happened happens has have host house how if in install is isolation it its java journal judge
judged kafka kafka-delivery-verifier kind known latency later law leave librdkafka limit load long made mail more most
must my name needs network night no not now number of on once one operating or order other over overtake own page part
partition peer per permitted pip pipeline power price process producer program promise proof published question reach
record red repeat replica replication report reported room root rule run safe said secret section sending sent
separated services set setting short should show silence skipped something step story stronger table terminal test
than that the then there thing this ticket time timeline to together topic touched tour transaction transform trap two
up use user version was ways what when where which who why with word wrong you your
"""
"""The words that headings may have beside those of the glossary: everyday English, and names that every user of Kafka
knows. A new word of this project belongs into docs/glossary.md."""
