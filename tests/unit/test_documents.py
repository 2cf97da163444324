"""The documents promise what the program does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from support import pictures, prose, report_material

from delivery_verifier.catalogue.profiles import PUBLISHED
from delivery_verifier.reporting.report import page
from delivery_verifier.suite import selection
from docs.generate import discoveries, which_settings

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_readme_promises_the_cases_where_they_are(tmp_path: Path) -> None:
    text = " ".join((ROOT / "README.md").read_text().split())
    assert "its report lists the first lost records and tells the story of one" in text
    assert "It also names the settings that would have held under this fault." in text
    path, verdict = report_material.violated(tmp_path)
    report = page.render(path, verdict)
    assert "What to change" in report
    assert "One record's story." in report.replace("&#39;", "'") and "the first 20 shown" in report


def test_the_readme_claims_of_the_catalogue_what_the_newest_results_show() -> None:
    text = " ".join((ROOT / "README.md").read_text().split())
    claim = re.search(r"\[all (\d+) scenarios on [\d-]+, and by which commit\]\((docs/results/[\w.-]+\.md)\)", text)
    assert claim is not None and re.findall(r"\d+-\d+-\d+", claim[0])[0] in claim[2], "the date of the file"
    results = (ROOT / claim[2]).read_text()
    as_expected = set(re.findall(r"^\| `([\w.]+)` \| as expected \|", results, re.MULTILINE))
    later = {ran.scenario for ran in discoveries.runs()}
    assert all(f"({file.with_suffix('.md').relative_to(ROOT)})" in text for file in discoveries.RUNS)
    assert as_expected | later == {entry.name for entry in selection.entries()}, "make campaign PART=catalogue"
    assert f"Green: all {claim[1]} scenarios ended as predicted: {len(as_expected)} as expected." in results
    wholes = [file.name for file in (ROOT / "docs/results").glob("catalogue-*-whole.md")]
    assert claim[2].endswith(max(wholes)), "the newest"


def test_every_part_of_the_campaign_is_a_script_that_the_readme_of_bench_explains() -> None:
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", "")
    parts = re.findall(r"^PARTS := (.*)$", makefile, re.MULTILINE)[0].split()
    assert sorted(parts) == sorted(
        ["catalogue", "clients", "bench", *(file.stem for file in (ROOT / "bench/campaigns").glob("*.py"))]
    )
    readme = (ROOT / "bench/README.md").read_text()
    speed = [f"| `{file.name}` |" for file in (ROOT / "bench/speed").glob("*.py")]
    assert [row for row in [*(f"| `{part}` |" for part in parts), *speed] if row not in readme] == []
    pages = {file: " ".join(re.findall(r'PART="?([a-z_ ]+)', file.read_text())).split() for file in prose.documents()}
    assert {file: unknown for file, named in pages.items() if (unknown := set(named) - set(parts))} == {}


def test_the_tour_has_seven_small_pictures_that_are_listed() -> None:
    """tests/e2e/test_pictures.py and tests/catalogue hold that they show what this checkout shows."""
    listed = pictures.read()
    files = {file.name: file.read_bytes() for file in pictures.FOLDER.glob("*.png")}
    assert {name: pictures.digest(png) for name, png in files.items()} == {
        name: picture.sha256 for name, picture in listed.items()
    }, "make pictures"
    assert len(files) == 7 and all(len(png) < 300_000 for png in files.values())
    tour = (ROOT / "docs/tour.md").read_text()
    assert set(re.findall(r"\]\(pictures/([\w.]+)\)", tour)) == set(files)
    assert "docs/pictures/report.png" in (ROOT / "README.md").read_text()


def test_the_tour_names_only_what_its_pictures_show() -> None:
    shown = {label for picture in pictures.read().values() for label in picture.labels}
    text = (ROOT / "docs/tour.md").read_text().split("## Then")[0]
    named = set(re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", text))
    assert {"What to change", "Why", "Proofs", "lost"} <= named <= shown


def test_the_page_on_settings_has_the_promises_of_the_contract_and_the_measured_prices() -> None:
    written = (ROOT / "docs/which-settings.md").read_text()
    assert written == which_settings.document(ROOT / "docs"), "run `python -m docs.generate.which_settings`"


def test_the_page_on_settings_recommends_only_what_its_table_shows() -> None:
    rows = {
        cells[1].strip(" `"): [cell.strip() for cell in cells[3:6]]
        for line in (ROOT / "docs/which-settings.md").read_text().splitlines()
        if line.startswith("| `") and len(cells := line.split("|")) == 10
    }
    assert rows.keys() == set(PUBLISHED)
    assert rows["idempotent"] == ["always, but for: power of all, forced election", "always, but for: resend", "always"]
    assert rows["acks_0"][0] == rows["acks_all"][1] == "**no**"


def test_the_first_screen_says_what_a_run_costs_and_that_no_cluster_is_touched() -> None:
    first = (ROOT / "README.md").read_text().split("```sh")[0]
    assert "Your cluster is not touched" in first and "pictures/report.png" in first
    assert all(re.search(cost, first) for cost in ("two\\s+minutes", "4 GB of memory", "3 GB of disk"))


KINDS = {"added": "Added", "changed": "Changed", "fixed": "Fixed"}


def unusable(folder: Path) -> list[str]:
    """Returns, for each file of `folder` that is no fragment of the changelog, its name and what is wrong with it."""
    found = []
    for file in sorted(path for path in folder.iterdir() if path.name not in ("README.md", "template.jinja")):
        if not re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md", file.name):
            found.append(f"{file.name}: the name must be NAME.KIND.md; allowed kinds: {', '.join(KINDS)}")
        elif not file.read_text().strip():
            found.append(f"{file.name}: it is empty")
        elif long := prose.long_sentences(file.read_text()):
            found.append(f"{file.name}: {long[0]}")
    return found


def test_every_fragment_of_the_changelog_has_a_kind_and_short_sentences() -> None:
    assert unusable(ROOT / "changes") == []
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    assert {kind["directory"]: kind["name"] for kind in options["type"]} == KINDS
    assert options["start_string"] in (ROOT / options["filename"]).read_text() and options["directory"] == "changes"


def test_a_fragment_that_the_changelog_would_not_take_would_be_seen(tmp_path: Path) -> None:
    files = {
        "price.added.md": "A page.\n",
        "x.mended.md": "x\n",
        "y.md": "y\n",
        "z.fixed.md": "\n",
        "l.fixed.md": "a " * 40,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert [line.split(":")[0] for line in unusable(tmp_path)] == ["l.fixed.md", "x.mended.md", "y.md", "z.fixed.md"]
