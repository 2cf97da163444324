"""The page: one offline HTML file that says what happened, why, and how to repeat it."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import bokeh
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from delivery_verifier.report import charts, words
from delivery_verifier.report.advice import advice
from delivery_verifier.report.cases import CASES_SHOWN, groups
from delivery_verifier.report.history import Clock, clock, name_of, subject_topic
from delivery_verifier.report.lanes import EVENTS_TOLD, LANES_SHOWN, events
from delivery_verifier.report.material import Material, read
from delivery_verifier.report.story import story
from delivery_verifier.report.tables import finding_rows, gap_rows, law_rows, proof_lines, setting_rows
from delivery_verifier.runs import IncompleteRun, RunDirectory
from delivery_verifier.scenario import STEPS
from delivery_verifier.verdict import RunVerdict

_TEMPLATES = Path(__file__).parent / "templates"


def write(run_dir: Path, verdict: RunVerdict | None, into: Path) -> None:
    """Writes the page of a run to the file `into` (or `into`/report.html if that is a folder).

    Reads whatever the run directory holds and says on the page what is missing. `verdict` None: the run was
    never judged, and the page says so. Raises OSError if the page cannot be written.
    """
    file = into / "report.html" if into.is_dir() else into
    file.write_text(render(run_dir, verdict), encoding="utf-8", newline="\n")


def render(run_dir: Path, verdict: RunVerdict | None) -> str:
    """The page as HTML text."""
    material = read(run_dir, verdict)
    zero = clock(material)
    found = groups(material, zero)
    drawn = charts.timeline(material, zero, "timeline-plot")
    scripts = [_asset("page.js")]
    if drawn is not None:
        scripts = [_bokeh(), *scripts]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            **_sections(material, zero),
            groups=found,
            story=story(material, zero, found),
            plot=_json(drawn) if drawn is not None else None,
            scripts=[Markup(script) for script in scripts],
            policy=" ".join(_hash(script) for script in scripts),
            style=Markup(_asset("page.css")),
            missing=material.missing,
        )
    )


def _sections(material: Material, zero: Clock) -> dict[str, Any]:
    verdict, scenario = material.verdict, material.scenario
    arms = scenario.arms if scenario else ()
    run_id = verdict.run_id if verdict else scenario.run_id if scenario else material.path.name
    return {
        "verdict": verdict,
        "name": verdict.verdict if verdict else "NO VERDICT",
        "run_id": run_id,
        "scenario": scenario,
        "subject_topic": subject_topic(material),
        "arms": [(arm, finding_rows(arm)) for arm in verdict.arms] if verdict else [],
        "doubts": _doubts(verdict),
        "events": events(material, zero),
        "legend": _legend(material),
        "laws": law_rows(material.tables.get("books/laws")),
        "gaps": gap_rows(material, zero),
        "producer_settings": setting_rows(arm.profile.producer for arm in arms),
        "topic_settings": setting_rows(arm.profile.topic for arm in arms),
        "injections": [(one, name_of(one), proof_lines(one)) for one in material.injections],
        "injection_names": {one.id: name_of(one) for one in material.injections},
        "tell": zero.tell,
        "times_from_load": zero.of_load,
        "cases_known": "anomalies" in material.tables,
        "injections_known": all(one.name != "injections.json" for one in material.missing),
        "steps": _steps(material),
        "files": _files(material),
        "rejudge": f"kdv reconcile {shlex.quote(f'runs/{run_id}')}",
        "cases_shown": CASES_SHOWN,
        "events_told": EVENTS_TOLD,
        "lanes_shown": LANES_SHOWN,
        "bands_shown": charts.BANDS_DRAWN,
    }


@dataclass(frozen=True)
class _Doubts:
    """All doubts of one name: which arms they touch, and each different detail once."""

    kind: str
    name: str
    arms: list[str]
    details: list[str]


def _doubts(verdict: RunVerdict | None) -> list[_Doubts]:
    """Doubts by name, checker doubts first."""
    found: dict[tuple[str, str], _Doubts] = {}
    for arm in verdict.arms if verdict else []:
        for doubt in arm.doubts:
            same = found.setdefault((doubt.kind, doubt.name), _Doubts(doubt.kind, doubt.name, [], []))
            same.arms.extend([arm.arm] if arm.arm not in same.arms else [])
            same.details.extend([doubt.detail] if doubt.detail not in same.details else [])
    return sorted(found.values(), key=lambda one: one.kind != "checker")


def _legend(material: Material) -> dict[str, list[tuple[str, str]]]:
    """Colours of arms (in the order of the timeline) and brokers."""
    table = material.tables.get("timeline/load")
    arms = list(dict.fromkeys(table.column("arm").to_pylist())) if table is not None else []
    topic = subject_topic(material)
    drawn = [one for one in material.observations if one.kind == "partition" and one.topic == topic]
    brokers = sorted({broker for one in drawn for broker in (one.leader, *one.isr)})
    return {
        "arms": [(arm, charts.arm_colour(place)) for place, arm in enumerate(arms)],
        "brokers": [
            ("no leader" if broker < 0 else f"broker {broker}", charts.broker_colour(broker))
            for broker in brokers
        ],
    }


def _steps(material: Material) -> list[tuple[str, str, float | None]]:
    """Every step: whether it finished, and how long it took in s."""
    found: list[tuple[str, str, float | None]] = []
    for step in STEPS:
        later = material.verdict is not None and step in ("conclude", "stop_cluster")
        try:
            manifest = RunDirectory(material.path).manifest(step)
        except IncompleteRun:
            found.append(
                (step, "ends after this page was written" if later else "no record that it finished", None)
            )
        else:
            found.append((step, "finished", (manifest.finished_at_us - manifest.started_at_us) / 1e6))
    return found


def _files(material: Material) -> list[tuple[str, str, str]]:
    """The run directory's known parts: name, meaning, size or that it is missing."""
    found = []
    for name, meaning in words.FILES.items():
        part = material.path / name
        files = [part] if part.is_file() else [file for file in part.rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in files)
        by_us = name == "report.html" or (name == "verdict.json" and material.verdict is not None)
        told = _size(size) if files else "written with this page" if by_us else "missing"
        found.append((name + ("/" if part.is_dir() else ""), meaning, told))
    return found


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters.update(number=words.number, plain=words.plain, said=words.said, clean=words.clean)
    environment.globals.update(words=words, advice=advice)
    return environment


def _finalize(value: object) -> object:
    """What an expression of the template prints: no control characters, and a dash for nothing."""
    if value is None:
        return "–"
    return value if isinstance(value, (Markup, int, float)) else words.clean(value)


@cache
def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _bokeh() -> str:
    """BokehJS's core, which is all that the charts need."""
    file = resources.files(bokeh) / "server" / "static" / "js" / "bokeh.min.js"
    return file.read_text(encoding="utf-8").replace("\r\n", "\n").replace("</script", "<\\/script")


def _hash(script: str) -> str:
    """The script's source expression for the page's own content security policy: nothing else may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _json(item: dict[str, Any]) -> Markup:
    """JSON that cannot leave its script element."""
    text = json.dumps(item, separators=(",", ":"), allow_nan=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)
