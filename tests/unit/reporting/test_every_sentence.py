"""Whatever a run shows: no text names a kind that was not found, a fault that was not done, or a command or option
that would be refused.

The texts come from the judge, the terminal and the report. The runs are made by hand.
"""

from __future__ import annotations

import argparse
import html
import io
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support import prose, report_material
from support.commands import commands, plan, without_git
from support.evidence import EFFECT_AT, LAST, RUN, Rows, case, cases, evidence_of, judged, the_injections, validation_of
from support.run_builder import RunBuilder

from delivery_verifier import catalogue
from delivery_verifier.advice import doubts
from delivery_verifier.advice.advise import advise
from delivery_verifier.command_line import main
from delivery_verifier.model.anomalies import KINDS, SECONDARY, Anomaly, also_column, column
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import DISTURBANCES
from delivery_verifier.model.scenario import Claim, Scenario
from delivery_verifier.model.verdict import ArmVerdict, Finding, RunVerdict
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.request import FIELDS
from delivery_verifier.reporting import brief, terminal
from delivery_verifier.reporting.report import page
from delivery_verifier.reporting.report.reasons import reasons
from delivery_verifier.verdict import sentences
from delivery_verifier.verdict.evaluation import INVARIANTS
from delivery_verifier.verdict.evidence import Evidence

EFFECTIVE = [name for name, act in ACTS.items() if act.takes_effect]
SETTINGS = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # an example is small as it is, and shrinking takes minutes
)


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        without_git(patch)
        yield


@cache
def _scenario(fields: tuple[tuple[str, Any], ...]) -> Scenario:
    asked = {"records": 1200, **dict(fields)}
    if catalogue.FAULTS[asked.get("fault", "none")].by_others:
        asked["cycles"] = 1  # nobody knows how often somebody else breaks something
    return scenario_from_params(asked, "made")


@dataclass
class Run:
    """A run made by hand. `counts`: cases by kind, of the subject and of its controls; `also` likewise. `injections`:
    the actions that were done, and whether each bit. `spoilt`: the tables whose first figure is wrong. `late`: how many
    cases of each kind befell records that were sent after everything was over, so that no disturbance explains them."""

    fields: dict[str, Any]
    counts: dict[Anomaly, int] = field(default_factory=dict)
    also: dict[Anomaly, int] = field(default_factory=dict)
    injections: list[tuple[str, bool]] = field(default_factory=lambda: [("kill", True)])
    spoilt: tuple[str, ...] = ()
    with_cases: bool = False
    late: int = 0

    def scenario(self) -> Scenario:
        return _scenario(tuple(self.fields.items()))

    def evidence(self) -> Evidence:
        made = self.scenario()
        (kill,) = the_injections(RUN)
        hit = {arm.topic_name: [0] for arm in made.arms}
        done = [
            msgspec.structs.replace(kill, id=number, cycle=number, action=action, took_effect=took_effect, hit=hit)
            for number, (action, took_effect) in enumerate(self.injections, 1)
        ]
        rows = [
            case(at_us, at_us + 1, kind.value, arm=arm.name)
            for kind in {**self.counts, **self.also}
            for arm in made.loaded
            for at_us in (EFFECT_AT, *[LAST] * self.late)
        ]
        return evidence_of(made, self.change, injections=done, **({"cases": cases(*rows)} if self.with_cases else {}))

    def change(self, rows: Rows) -> None:
        loaded = {arm.name for arm in self.scenario().loaded}
        for row in rows["counts/producers.parquet"]:
            if row["arm"] in loaded and row["producer"] == 0 and row["partition"] == 0:
                row.update({column(kind): count for kind, count in self.counts.items()})
                row.update({also_column(kind): count for kind, count in self.also.items()})
        for table in self.spoilt:
            row = rows[table][0] if rows.get(table) else {}
            name = next((name for name in ("left", "reported", "end", "cases") if name in row), None)
            row.update({} if name is None else {name: row[name] + 1})


KIND_COUNTS = st.dictionaries(st.sampled_from(list(Anomaly)), st.sampled_from([1, 2, 61, 3246]), max_size=3)
ALSO_COUNTS = st.dictionaries(st.sampled_from(list(SECONDARY)), st.sampled_from([1, 2, 7]), max_size=2)
RUNS = st.builds(
    Run,
    fields=st.fixed_dictionaries(
        {
            "profile": st.sampled_from(list(catalogue.PROFILES)),
            "claim": st.sampled_from(get_args(Claim)),
            "application": st.sampled_from([None, *catalogue.APPLICATIONS]),
            "fault": st.sampled_from(list(catalogue.FAULTS)),
            "cycles": st.sampled_from([1, 2, 5]),
            "records": st.sampled_from([1000, 1200, 20_000]),
        }
    ),
    counts=KIND_COUNTS,
    also=ALSO_COUNTS,
    injections=st.lists(st.tuples(st.sampled_from(EFFECTIVE), st.booleans()), max_size=3),
    spoilt=st.lists(
        st.sampled_from(["counts/invariants.parquet", "counts/partitions.parquet", "counts/exposure.parquet"]),
        max_size=2,
    ).map(tuple),
    with_cases=st.booleans(),
    late=st.sampled_from([0, 1, 2, 60]),
)


@pytest.mark.slow
@SETTINGS
@given(RUNS)
def test_no_text_says_what_did_not_happen(run: Run) -> None:
    evidence = run.evidence()
    verdict = advise(evidence, judged(evidence, validation_of(evidence)), Path("nowhere"))
    for arm in verdict.arms:
        if arm.role != "canary":
            names_only_what_was_counted(arm)
        names_only_what_was_done(arm.sentence, run)
    names_only_what_was_done(verdict.sentence, run)
    names_only_kinds_with_cases(verdict, run)
    proposes_only_what_is_accepted(told(verdict))
    reads_well(verdict, run.scenario())


@pytest.mark.parametrize("late", [1, 2, 60, 61])
def test_a_kind_with_explained_and_unexplained_cases_is_reported_with_both_numbers(late: int) -> None:
    run = Run({"profile": "acks_1"}, {Anomaly.LOST: 61}, with_cases=True, late=late)
    verdict = judged(run.evidence())
    subject = next(arm for arm in verdict.arms if arm.role == "subject")
    assert [(it.ruling, cases_of(it)) for it in subject.findings if it.anomaly == "LOST"] == [
        ("PERMITTED", 61 - late),
        ("FORBIDDEN", late),
    ]
    names_only_what_was_counted(subject)
    assert f"{late} lost, which the contract forbids" in subject.sentence
    assert (f"and {61 - late} lost, which it permits" in subject.sentence) == (late < 61)
    hurt = msgspec.structs.replace(subject, role="control")
    assert "acks_1 (61 lost)" in sentences._controls([hurt, hurt, hurt], True, "")
    proposes_only_what_is_accepted(told(verdict))


@pytest.mark.slow
@pytest.mark.parametrize("profile", catalogue.PROFILES)
def test_every_claim_and_kind_alone_is_reported_as_it_is(profile: str) -> None:
    for claim, kind, hidden in itertools.product(CLAIMS, Anomaly, (False, True)):
        if hidden and kind not in SECONDARY:
            continue
        count = {kind: 1 + len(claim)}
        run = Run({"profile": profile, "claim": claim}, {} if hidden else count, count if hidden else {})
        verdict = judged(run.evidence())
        for arm in verdict.arms:
            if arm.role != "canary":
                names_only_what_was_counted(arm)
        proposes_only_what_is_accepted(told(verdict))


@pytest.mark.parametrize("name", [*catalogue.ENTRIES, *catalogue.PRICES])
def test_a_scenario_of_the_catalogue_proposes_only_what_is_accepted_for_a_scenario(name: str) -> None:
    text = told(judged(Run({"scenario": name}).evidence()))
    proposes_only_what_is_accepted(text)
    fixed = {
        f"--{name.replace('_', '-')}" for name, field in FIELDS.items() if field.words.beside_a_scenario != "counts"
    }
    assert not fixed & set(re.findall(r"--[a-z][a-z-]+", text)), "an option that such a scenario refuses"


@pytest.mark.parametrize("kind", ["checker", "coverage"])
def test_every_advice_names_only_commands_that_there_are(kind: str) -> None:
    for name in (*doubts.ADVICE, "a doubt that nobody knows"):
        proposes_only_what_is_accepted(doubts.advice(kind, name))


@pytest.mark.slow
@pytest.mark.parametrize("make", [report_material.held, report_material.violated, report_material.inconclusive])
def test_a_report_proposes_only_what_is_accepted(make: Any, tmp_path: Path) -> None:
    text = page.render(*make(tmp_path))
    assert len(list(commands(text))) >= 2, "the command that repeats the run, and the one that judges it again"
    proposes_only_what_is_accepted(text)


@pytest.mark.slow
def test_a_report_names_only_what_was_found(tmp_path: Path) -> None:
    """The page of a run of which only scenario and verdict are there."""
    for number, kind in enumerate(Anomaly):
        run = Run({"profile": "acks_1", "claim": "exactly_once"}, {kind: 5})
        directory = RunBuilder(run.scenario()).at(tmp_path / str(number))
        verdict = judged(run.evidence())
        text = visible(page.render(directory.path, verdict))
        proposes_only_what_is_accepted(page.render(directory.path, verdict))
        for reason in reasons(verdict):
            assert f"{reason.lead} {reason.text}".strip() in text
        for other in set(Anomaly) - {kind}:
            assert f"Violated because 5 records are {KINDS[other].records_that_are}" not in text


NOUNS = (
    "arms attempts brokers cases cycles doubts faults injections members partitions records repetitions replicas runs "
    "seconds times transactions"
)
PLURAL_OF_ONE = re.compile(rf"(?<![\d,.=] of )(?<![\w,.=-])1 (?:[A-Za-z]+ )?(?:{NOUNS.replace(' ', '|')})\b")
WITHOUT_UNIT = re.compile(r"(?<![\w=.,/-])\d[\d,]*(?:\.\d+)?(?=[.;:)]?(?:$|\s*[.;:)]))")
NAMES = {
    *catalogue.PROFILES,
    *catalogue.APPLICATIONS,
    *CLAIMS,
    "read_committed",
    "second_opinion",
    "effects_balance",
    *DISTURBANCES,
}


def reads_well(verdict: RunVerdict, plan: Scenario) -> None:
    """The report, the text in a terminal and the note have no plural of one, no double space and no empty value. The
    sentences of arms that were judged have no number without a word behind it, and no name that nobody knows."""
    with TemporaryDirectory() as folder:
        directory = RunBuilder(plan).at(Path(folder) / "run")
        whole = page.render(directory.path, verdict)
        note = brief.note_text(verdict, directory.path.parent)
        in_a_terminal = told(verdict, directory.path.parent)
        mail = "\n".join(brief.plain_lines(verdict, directory.path.parent))
    proposes_only_what_is_accepted(whole)
    proposes_only_what_is_accepted(note)
    sentences_reported = [verdict.sentence, *note.split("\n"), *mail.split("\n"), *verdict.limits, *verdict.notes]
    sentences_reported += [text for reason in reasons(verdict) for text in (reason.lead, reason.text, reason.short)]
    for text in (visible(whole), in_a_terminal, *sentences_reported):
        assert not PLURAL_OF_ONE.search(text), PLURAL_OF_ONE.search(text)
        assert not re.search(r"\b(None|nan|NaN|undefined)\b|\{\}|\[\]", text), text
    for text in [*sentences_reported, *(line.strip() for line in in_a_terminal.splitlines() if line[:1] not in "|+")]:
        assert "  " not in text, text
        assert not prose.indirect(text), prose.indirect(text)
    names = NAMES | set(plan.arm_names) | set(INVARIANTS) | doubts.ADVICE.keys() | {plan.fault.name, plan.name}
    for text in [*sentences_reported, *in_a_terminal.splitlines()]:
        sentence = re.sub(r"`[^`]*`|^ *\|.*|\bkdv .*|^(checker|coverage) doubt, .*", "", text)
        unknown = set(re.findall(r"(?<![\w/.-])[a-z]+(?:_[a-z0-9]+)+\b(?!\.json|\.parquet|/)", sentence)) - names
        assert not {name for name in unknown if not any(name in other for other in names)}, (unknown, text)
    for arm in verdict.arms:
        if arm.verdict != "INCONCLUSIVE":
            assert not WITHOUT_UNIT.search(arm.sentence), arm.sentence
    for text in [*verdict.limits, *verdict.notes]:
        counted = re.sub(
            r"`[^`]*`|\bin \d+(?=[;,)])", "", text
        )  # `hurt acks_1 in 2`: of the faults that are named first
        assert not WITHOUT_UNIT.search(counted), text


@pytest.mark.parametrize(
    "text", ["1 attempts were", "with 1 records in flight", "1 acknowledged records", "a pause of 1 seconds"]
)
def test_a_plural_of_one_would_be_seen(text: str) -> None:
    assert PLURAL_OF_ONE.search(text)


def test_correct_numbers_are_no_errors() -> None:
    right = "1 of 1,000 records, 11 records, 1 record, in 1 of 1 faults, acks=1 records; lost 3 records, 95 % of them"
    assert not PLURAL_OF_ONE.search(right) and not WITHOUT_UNIT.search(right)
    assert WITHOUT_UNIT.search("of all records 3; then") and WITHOUT_UNIT.search("the limit is 3")


def visible(text: str) -> str:
    """What a person reads of a page."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", text, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", body)))


def told(verdict: RunVerdict, runs: Path | None = None) -> str:
    """The text of a verdict in a terminal, and what the report says beside it."""
    stream = io.StringIO()
    terminal.write(verdict, stream, runs=runs)
    return "\n".join([stream.getvalue(), *(f"{reason.lead} {reason.text}" for reason in reasons(verdict))])


def cases_of(finding: Finding) -> int:
    return finding.count + finding.also


def names_only_what_was_counted(arm: ArmVerdict) -> None:
    """A verdict names each kind with its number, or with both if some cases are explained and others are not. A number
    may stand only before a kind that has it."""
    seen: dict[str, list[int]] = {}
    for finding in arm.findings:
        seen.setdefault(KINDS[Anomaly(finding.anomaly)].participle, []).append(cases_of(finding))
    if arm.verdict != "INCONCLUSIVE":
        reason = arm.sentence.split("; ")[0]
        for participle, counts in seen.items():
            numbers = re.findall(rf"([\d,]+) {re.escape(participle)}(?!\w)", reason)
            assert {*numbers} <= {f"{count:,}" for count in counts if count}, arm.sentence
            assert len(counts) == 1 or len(numbers) == sum(map(bool, counts)), arm.sentence
            assert any(counts) or f" {participle}" not in reason, arm.sentence
    alone = msgspec.structs.replace(arm, role="subject")
    for text in reasons(
        RunVerdict(run_id="r", scenario="s", verdict="HELD", green=True, sentence="", limits=[], arms=[alone])
    ):
        for finding in arm.findings:
            kind, count = KINDS[Anomaly(finding.anomaly)], cases_of(finding)
            beside = [other for other in arm.findings if other.anomaly == finding.anomaly and other is not finding]
            is_broken = any(it.tolerance is not None and cases_of(it) > it.tolerance for it in (finding, *beside))
            singular = cases_of(beside[0]) == 1 if beside and finding.tolerance is None else count == 1
            phrase = f" is {kind.record_that_is}" if singular else f" are {kind.records_that_are}"
            assert (phrase in text.lead) == is_broken, text
            if beside and finding.tolerance is None:
                assert "which no disturbance explains" in text.lead
                assert not count or f"({count:,} more " in text.lead, text
                assert kind.record_that_is not in text.text, text
        if arm.verdict == "VIOLATED":
            assert text.lead.startswith("Violated because ")
        else:
            assert not text.lead.startswith("Violated")


def names_only_what_was_done(text: str, run: Run) -> None:
    """A sentence names every action that took effect, if it names any, and no other."""
    took_effect = {ACTS[action].done for action, took_effect in run.injections if took_effect}
    for done in {act.done for act in ACTS.values() if act.done} - took_effect:
        assert not re.search(rf" {re.escape(done)} (once|twice|\d+ times)", text), text
    if run.injections:
        assert "no fault was injected" not in text and "without a fault" not in text, text


def names_only_kinds_with_cases(verdict: RunVerdict, run: Run) -> None:
    kinds = {kind.value for kind in {**run.counts, **run.also}}
    for limit in verdict.limits:
        assert {kind for kind in Anomaly.__members__ if re.search(rf"\b{kind} \d", limit)} <= kinds, limit
        assert not (run.injections and limit.startswith("No fault was injected")), limit


def _parsers() -> dict[str, argparse.ArgumentParser]:
    actions = main._parser()._actions
    return dict(next(action for action in actions if isinstance(action, argparse._SubParsersAction)).choices)


PARSERS = _parsers()
OPTIONS = {option for parser in PARSERS.values() for option in parser._option_string_actions}


def proposes_only_what_is_accepted(text: str) -> None:
    """Every command is planned. Every word behind `kdv` is a command, and every option one of some command."""
    for command in set(commands(text)):
        plan(command)
    spoken = re.sub(r"<(script|style)\b.*?</\1>", " ", text, flags=re.S)
    assert set(re.findall(r"(?<![\w/.-])kdv ([a-z]+)\b", spoken)) <= PARSERS.keys()
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", spoken)) <= OPTIONS
