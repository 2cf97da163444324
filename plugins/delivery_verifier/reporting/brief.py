"""A verdict in few lines, for a terminal, for the note of a run in Airflow, and for a mail.

The parts come in the order of the report: verdict and headline, arms, doubts, what to change, what the run does not
show, and how to repeat the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from delivery_verifier.model.figures import enumeration
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.reporting.arm_rows import ArmRow
from delivery_verifier.reporting.blocks import Blocks, blocks_of
from delivery_verifier.reporting.changes import PricedAdvice, PricedOption
from delivery_verifier.reporting.doubts import DoubtGroup
from delivery_verifier.reporting.words import without_verdict

ARMS, WHY, CHANGE = "What became of the records", "Why", "What to change"
LIMITS, REPEAT = "What this run does not show", "Repeat it"
"""Headings of sections. The report has the same headings."""

NOTE_LENGTH = 1000
"""The greatest length of a note, in characters. Airflow keeps no more."""
_LEFT_OUT = (LIMITS, ARMS, REPEAT)
"""The sections that a note leaves out until it is short enough, in this order, and then WHY, if the doubts withhold no
verdict. The report has them."""


class Line(Struct, frozen=True):
    """One line. `command`: the command that `text` proposes, shown behind `text`; empty if there is none."""

    text: str
    command: str = ""


class Section(Struct, frozen=True):
    """One section: a heading of the report, and its lines."""

    heading: str
    lines: list[Line]


def sections(blocks: Blocks) -> list[Section]:
    """Returns all sections behind the headline, in the order of the report. Leaves out sections without lines."""
    every = [
        Section(ARMS, [_arm_line(row) for row in blocks.arms]),
        Section(WHY, [*map(Line, blocks.which_client), *map(Line, blocks.claims), *map(_doubt_line, blocks.doubts)]),
        change(blocks),
        Section(LIMITS, [Line(limit) for limit in blocks.limits]),
        Section(REPEAT, [Line("The same run again:", blocks.repeat)] if blocks.repeat else []),
    ]
    return [section for section in every if section.lines]


def change(blocks: Blocks) -> Section:
    """Returns the section that says what to change in the settings under test."""
    if blocks.unadvised:
        return Section(CHANGE, [Line(blocks.unadvised)])
    several = len(blocks.advices) > 1
    lines = [line for each in blocks.advices for line in _advised(each, f"{each.advice.arm}: " if several else "")]
    lines += [Line(" ".join([f"{arm}:", *changes] if arm else changes)) for arm, _, changes in blocks.given_up]
    lines += [Line(line) for cause in blocks.causes for line in cause.lines]
    return Section(CHANGE, lines)


def note_text(verdict: RunVerdict, runs: Path | None = None) -> str:
    """Returns the note of a run in Airflow, as Markdown: the verdict in bold, its sentence, and the sections about the
    run. `runs`: as in `blocks_of`.

    If the note would be longer than NOTE_LENGTH, sections are left out in the order of _LEFT_OUT, and then the last
    lines of what remains. The note then says where a reader finds them.
    """
    shown = sections(blocks_of(verdict, runs))
    for heading in ("", *_LEFT_OUT, *([] if verdict.verdict == "INCONCLUSIVE" else [WHY])):
        shown = [section for section in shown if section.heading != heading]
        text = "\n\n".join(_markdown(verdict, shown, whole=not heading))
        if len(text) <= NOTE_LENGTH:
            return text
    while shown and len(text) > NOTE_LENGTH:
        *shown, last = shown
        shown += [Section(last.heading, last.lines[:-1])] if len(last.lines) > 1 else []
        text = "\n\n".join(_markdown(verdict, shown, whole=False))
    return text


def _markdown(verdict: RunVerdict, shown: list[Section], *, whole: bool) -> Iterator[str]:
    """Yields the parts of a note. `whole`: whether `shown` has all sections. If it is false, the note says where a
    reader finds the others."""
    yield f"**{verdict.verdict}**: {without_verdict(verdict.sentence, verdict.verdict)}"
    for section in shown:
        lines = [f"* {line.text} `{line.command}`" if line.command else f"* {line.text}" for line in section.lines]
        yield "\n".join([f"**{section.heading}**", "", *lines])
    if not whole:
        yield "More: in the tab *Delivery report* of this run."


def plain_lines(verdict: RunVerdict, runs: Path | None = None) -> list[str]:
    """Returns the sections as lines of plain text, e.g. for a mail. `runs`: as in `blocks_of`."""
    lines = []
    for section in sections(blocks_of(verdict, runs)):
        lines += [f"{section.heading}:", *(f"{line.text} {line.command}".strip() for line in section.lines)]
    return lines


def _arm_line(row: ArmRow) -> Line:
    """Returns the line about one arm: how many records were reported and given up, and how many cases each kind of
    anomaly has."""
    role = ["under test" if row.arm.role == "subject" else row.arm.role, *filter(None, [row.client])]
    given_up = "".join(f", {cell.text} {cell.heading}" for cell in row.counts if cell.mark == "given-up")
    cases = [
        f"{cell.text} {cell.heading}{f' ({cell.note})' if cell.note else ''}"
        for cell in row.counts
        if cell.mark not in ("plain", "none", "given-up")
    ]
    anomalies = ", ".join(cases) or "no anomaly"
    return Line(
        f"{row.arm.arm} ({', '.join(role)}): {row.arm.verdict}, {row.reported.text} reported{given_up}, {anomalies}"
    )


def _doubt_line(doubt: DoubtGroup) -> Line:
    """Returns the line about one kind of doubt: what was seen first, and what to do. The report has all that was
    seen."""
    arms, detail = enumeration(doubt.arms, "and"), doubt.details[0]
    detail += "" if detail.endswith((".", "?")) else "."
    return Line(f"{doubt.name} ({doubt.kind} doubt, {arms}): {detail} What to do: {doubt.remedy}")


def _offered(option: PricedOption) -> str:
    return (
        f"{option.change} (may leave records {enumeration(option.permits, 'and')})" if option.permits else option.change
    )


def _advised(priced: PricedAdvice, prefix: str) -> list[Line]:
    """Returns the lines of one advice: what to change and why, the prices of the changes, and commands. The commands
    try a change, or measure its price. `prefix`: a text before the first sentence."""
    advice, options = priced.advice, priced.options
    sentences = f"{prefix}{advice.lead} {advice.text}".strip()
    if options:
        sentences = f"{sentences.rstrip('.')}: {'; '.join(map(_offered, options))}."
    lines = [Line(sentences)]
    if advice.kind != "remedy":
        return lines
    measured = [option for option in options if option.price.day]
    lines += [Line(_price(option)) for option in measured]
    lines += [Line("Try it:", option.command) for option in options[:1] if option.command]
    if priced.to_measure and not measured:
        lines.append(Line("Measure the price on this host:", priced.to_measure))
    return [*lines, *map(Line, advice.beside[:1])]


def _price(option: PricedOption) -> str:
    """Returns the measured price of a change, e.g. `acks=all: 81,300 records/s, 99 % within 12.6 ms, measured here
    ...`."""
    price = option.price
    figures = [price.speed, f"99 % within {price.latency}" if price.latency else ""]
    return f"{option.change}: {', '.join(filter(None, figures))}, measured here {price.day}"
