"""Tests of the matrix, the page of a catalogue run. Only unexpected results raise an alarm. No stored text becomes
markup. The pages of the documentation are generated from the entries."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.catalogue_runs import arm, attempt, catalogue, item, whole

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.catalogue.applications import profile_and_application
from delivery_verifier.catalogue.scenarios import ENTRIES
from delivery_verifier.model.catalogue_run import CatalogueRun, Item
from delivery_verifier.reporting.html import asset
from delivery_verifier.reporting.matrix import markdown as table
from delivery_verifier.reporting.matrix import page
from delivery_verifier.reporting.matrix import tables as matrix
from delivery_verifier.run_directory import catalogue_runs
from docs.generate import catalogue as docs
from docs.generate import discoveries

ROOT = Path(__file__).resolve().parents[3]
NASTY = "<script>alert(1)</script>\"'&{{ 7*7 }}\u202e"


def rendered(*items: Item, **more: object) -> str:
    return page.render(catalogue(*items, **more), "../..")


def cell(found: CatalogueRun, profile: str) -> matrix.Cell:
    return matrix.tables(found)[0].rows[0].cells[profile][0]


@pytest.mark.parametrize(
    ("verdict", "as_expected", "tone"),
    [
        ("HELD", True, "good"),
        ("VIOLATED", True, "proven"),
        ("VIOLATED", False, "bad"),
        ("HELD", False, "bad"),
        ("INCONCLUSIVE", False, "unsure"),
    ],
)
def test_the_colour_of_a_cell_is_that_of_the_expectation_not_of_the_verdict(
    verdict: str, as_expected: bool, tone: str
) -> None:
    one = replace(attempt("as expected"), arms=[arm(verdict=verdict, as_expected=as_expected)])  # type: ignore[arg-type]
    assert cell(catalogue(replace(item("a"), attempts=(one,))), "acks_1").tone == tone


def test_what_is_violated_as_expected_is_said_to_be_no_alarm() -> None:
    html = rendered(item("a", "as expected"))
    assert '<span class="badge tone-proven">✔ VIOLATED</span>' in html
    assert '<span class="mark mark-proven tone-proven" aria-hidden="true">V</span>' in html
    cells = html.split('<tbody id="acks">')[1]
    assert "not as expected" not in cells and "tone-bad" not in cells
    assert "<h1>Green: 1 scenario ended as predicted</h1>" in html


def test_what_is_not_as_expected_is_an_alarm_with_its_expectation_and_its_report() -> None:
    html = rendered(item("a", "not as expected"), item("b", "failed"))
    assert "<h1>Not green: 2 of 2 scenarios did not end as predicted</h1>" in html
    assert "not as expected; expected VIOLATED" in html
    assert 'href="../../c-a-1/report.html"' in html
    assert "broker 1 ended while starting" in html and "c-b-1/report.html" not in html


def test_an_inconclusive_attempt_is_shown_beside_the_one_that_counts() -> None:
    html = rendered(item("a", "inconclusive", "as expected"))
    assert "attempt 1" in html and "c-a-1/report.html" in html and "c-a-2/report.html" in html
    assert "the fault did not take effect" in html and "run once more" in html


def test_counts_are_ranges_over_the_rounds_and_unknown_figures_are_dashes() -> None:
    rounds = [replace(item("a", "as expected"), round=number) for number in (1, 2)]
    worse = replace(
        rounds[1].attempts[0],
        arms=[replace(arm(), counts={"lost": 103}, longest_gap_s=None, latency_ms_p99=None, records_per_s=None)],
    )
    both = catalogue(rounds[0], replace(rounds[1], attempts=(worse,)), rounds=2)
    assert cell(both, "acks_1").counts[0] == ("lost", "100–103") and cell(both, "acks_1").verdict == "VIOLATED 2×"
    alone = catalogue(replace(rounds[1], attempts=(worse,)))
    assert dict(cell(alone, "acks_1").figures) == {"gap": "–", "p99": "–", "rate": "–", "refused": "–"}
    assert cell(alone, "acks_1").counts[1] == ("duplicated", "–")


class Map(HTMLParser):
    """The map of a page: the headings of its columns, and for each scenario its cells as (column, letters, words,
    link).

    A cell that spans several columns has the text of the cell instead.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.columns, self.rows, self.shapes = list[str](), dict[str, list[object]](), dict[str, str]()
        self._row, self._column, self._inside = "", -1, ""
        self._link: dict[str, str | None] = {}
        self.feed(html.split('<table class="map">')[1].split("</table>")[0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        classes = (values.get("class") or "").split()
        if "upright" in classes:
            self.columns.append(values["title"] or "")
        elif tag == "th" and values.get("scope") == "row":
            self._row, self._column, self._inside = "", -1, ""
        elif tag == "td":
            self._column += 1
            self._inside = "note" if "note" in classes else ""
        elif tag == "a":
            self._link = values
            if self._column < 0:
                self._row = (values["href"] or "").removeprefix("#")
                self.rows[self._row] = []
        elif "mark" in classes:
            self._inside = "mark"
            self.shapes[classes[1]] = self.shapes.get(classes[1], "") + classes[2]

    def handle_endtag(self, tag: str) -> None:
        self._inside = "" if tag == "td" else self._inside

    def handle_data(self, data: str) -> None:
        if self._inside == "mark":
            cell = (self.columns[self._column], data, self._link["aria-label"], self._link["href"])
            self.rows[self._row].append(cell)
        elif self._inside == "note" and data.strip():
            self.rows[self._row].append(data.strip())
        self._inside = "" if self._inside == "mark" else self._inside


@pytest.fixture(scope="module")
def whole_map() -> Map:
    return Map(page.render(whole(), "../.."))


def test_the_map_has_each_scenario_in_a_row_and_each_arm_in_the_column_of_its_settings(whole_map: Map) -> None:
    assert list(whole_map.rows) == list(ENTRIES)
    for name, cells in whole_map.rows.items():
        if isinstance(cells[0], tuple):
            arms = [
                profile_and_application(arm.profile.name, arm.application.name if arm.application else "")
                for arm in ENTRIES[name].arms
            ]
            assert sorted(cell[0] for cell in cells) == sorted(arms)  # type: ignore[index]


def test_a_cell_has_a_letter_a_shape_words_and_leads_to_its_details(whole_map: Map) -> None:
    found = {cell[0]: cell for cell in whole_map.rows["consumer.commit_first"]}  # type: ignore[index,misc]
    link = "#consumer.commit_first"
    assert found["safe, applied by commit_first"][1:] == (
        "V",
        "commit_first (safe, applied by commit_first): VIOLATED, as expected",
        link,
    )
    assert found["safe, applied by commit_after"][1] == "H"
    assert "INCONCLUSIVE, cannot be told" in str(whole_map.rows["transform.end_lost"])
    assert set(whole_map.shapes) == {"mark-good", "mark-proven", "mark-bad", "mark-unsure"}
    html = page.render(whole(), "../..")
    assert all(html.count(f'id="{name}"') == 1 for name in ENTRIES)


def test_every_shape_of_the_map_differs_and_not_by_its_colour_alone() -> None:
    css = asset("matrix.css")
    rules = {shape: re.search(rf"\.mark-{shape} {{([^}}]*)}}", css) for shape in ("good", "proven", "bad", "unsure")}
    shapes = {re.sub(r"(color|background|border-color)[^;]*;", "", rule[1]).strip() for rule in rules.values() if rule}
    assert len(shapes) == 4


def test_profiles_stand_before_applications_in_the_order_of_the_catalogue(whole_map: Map) -> None:
    profiles = [name for name in whole_map.columns if "applied by" not in name]
    common = [name for name in PROFILES if name in profiles]
    assert whole_map.columns[: len(profiles)] == profiles and profiles[: len(common)] == common
    assert len(whole_map.columns) == len(set(whole_map.columns))


def test_a_scenario_without_results_says_why_in_its_row(whole_map: Map) -> None:
    assert whole_map.rows["group.rewind"] == ["NO VERDICT: broker 1 ended while starting"]
    assert whole_map.rows["database.apart"] == ["not run yet"]
    assert whole_map.rows["power.all_brokers"] == [
        "UNAVAILABLE, which was not expected: no loop device: modprobe loop, or run it as root"
    ]


def test_a_catalogue_run_without_scenarios_has_an_empty_map() -> None:
    found = Map(rendered())
    assert found.columns == [] and found.rows == {}


def test_rounds_with_different_verdicts_have_both_letters() -> None:
    rounds = [replace(item("a", "as expected"), round=number) for number in (1, 2)]
    held = replace(rounds[1].attempts[0], arms=[arm("acks_1", "HELD")])
    found = Map(page.render(catalogue(rounds[0], replace(rounds[1], attempts=(held,)), rounds=2), "../.."))
    assert ("acks_1", "V/H", "acks_1: VIOLATED / HELD, as expected", "#a") in found.rows["a"]


class Read(HTMLParser):
    """Collects the script tags, the links and the event attributes of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.scripts, self.links, self.events = 0, [], []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self.events += [name for name, _ in attrs if name.startswith("on")]


def test_nothing_that_a_run_or_a_record_says_is_markup() -> None:
    nasty = replace(
        attempt("inconclusive", run=f"../{NASTY}"),
        sentence=NASTY,
        doubts=[NASTY],
        arms=[replace(arm(NASTY), expected=NASTY, sentence=NASTY)],
    )
    one = replace(item("a"), title=NASTY, promise=NASTY, fault=NASTY, kind=NASTY, tags=(NASTY,), attempts=(nasty,))
    failed = replace(item("b", "failed"), attempts=(replace(attempt("failed"), error=NASTY),))
    found = catalogue(
        one,
        failed,
        replace(item("d"), unavailable=NASTY),
        wanted=NASTY,
        machine=NASTY,
        commit=NASTY,
        versions={NASTY: NASTY},
        id="c",
    )
    read = Read(html := page.render(found, "../..", [found]))
    assert (
        read.scripts == 1
        and not read.events
        and "alert(1)</script>" not in html
        and "\u202e" not in html
        and "{{ 7*7 }}" in html
    )
    assert not [link for link in read.links if link.startswith(("http", "//", "javascript"))]
    assert not [link for link in read.links if link.startswith("../../../")]


def test_the_page_is_written_whole_beside_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path))
    found = catalogue(item("a", "as expected"))
    catalogue_runs.write(found)
    assert page.write(found) == tmp_path / "catalogues" / "c" / "matrix.html"
    assert sorted(file.name for file in (tmp_path / "catalogues" / "c").iterdir()) == ["catalogue.json", "matrix.html"]


def test_while_it_is_under_way_it_says_so() -> None:
    html = rendered(item("a", "as expected"), item("b"), ended=False)
    assert "<h1>Under way: 1 of 2 scenarios done</h1>" in html and "not run yet" in html


def test_the_results_are_a_table_with_date_machine_and_versions() -> None:
    text = table.document(catalogue(item("a", "inconclusive", "as expected"), item("b", "failed"), rounds=3))
    assert "# Catalogue, 2026-11-21" in text and "rounds: 3" in text and "2 CPUs" in text and "kafka 4.3.1" in text
    assert "| `a` | as expected | 2, 1 inconclusive | 31–31 | acks_1 | VIOLATED | 100 | 0 | 0 | 3.2 s |" in text
    assert "| `b` | failed | 1 | 3–3 | broker 1 ended while starting |" in text


def test_the_docs_are_those_of_the_entries() -> None:
    remedy = "python -m docs.generate.catalogue"
    assert (ROOT / "docs/reference/catalogue.md").read_text() == docs.document(), (
        f"docs/reference/catalogue.md is out of date: {remedy}"
    )


def test_the_page_on_known_bugs_is_that_of_the_scenarios_and_of_the_runs() -> None:
    remedy = "python -m docs.generate.discoveries"
    assert (ROOT / "docs/discoveries.md").read_text() == discoveries.document(), f"out of date: {remedy}"


def test_the_page_on_known_bugs_counts_every_run_that_was_made_of_every_client() -> None:
    ran = discoveries.runs()
    for entry in discoveries.ENTRIES:
        for name, expected in discoveries.expectations(entry):
            mine = [each for each in ran if (each.scenario, each.client) == (entry.name, name)]
            assert {each.verdict for each in mine} <= {*expected.verdicts}, "as expected"
            assert mine and f"| {name} | {len(mine)} |" in discoveries.document()


def test_every_entry_is_in_the_docs_with_every_arm() -> None:
    text = docs.document()
    for entry in ENTRIES.values():
        part = text.split(f"### {entry.name}\n")[1].split("\n### ")[0]
        assert (
            entry.promise in part
            and entry.source in part
            and all(f"| {one.name} | {one.role} |" in part for one in entry.arms)
        )


def test_what_was_sent_again_is_reported_only_where_something_was() -> None:
    again = replace(arm(), counts={**arm().counts, "resent": 200})
    quiet, resent = (
        catalogue(replace(item("a"), attempts=(replace(attempt("as expected"), arms=[one]),))) for one in (arm(), again)
    )
    assert [name for name, _ in cell(quiet, "acks_1").counts] == ["lost", "duplicated", "reordered"]
    assert cell(resent, "acks_1").counts[-1] == ("resent", "200")


def test_the_matrix_says_which_share_of_the_permitted_cases_a_disturbance_explains() -> None:
    hurt = replace(attempt("as expected"), arms=[replace(arm(), explained=9, doubtful=1), replace(arm(), explained=30)])
    found = catalogue(replace(item("a"), attempts=(hurt, attempt("as expected"))))
    sentence = (
        "Of 40 cases that settings permit only because of a disturbance, 39 (97.5 %) name the one that explains them"
    )
    assert found.explained == (39, 40)
    assert sentence in page.render(found, "../..") and sentence in table.document(found)
    assert "because of a disturbance" not in rendered(item("a", "as expected"))
