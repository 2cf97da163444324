"""The report of one run: one HTML file. The HTML file loads nothing from elsewhere."""

from __future__ import annotations

import json
import shlex
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import bokeh
from markupsafe import Markup

from delivery_verifier.catalogue.applications import application_properties
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.reporting import latency
from delivery_verifier.reporting.arm_rows import run_tone
from delivery_verifier.reporting.blocks import blocks_of
from delivery_verifier.reporting.causes import LOOK_FOR
from delivery_verifier.reporting.charts import bands, timeline
from delivery_verifier.reporting.charts.figures import arm_colour, broker_colour
from delivery_verifier.reporting.charts.lanes import LANES_SHOWN, without_the_dead
from delivery_verifier.reporting.charts.latency_charts import distribution
from delivery_verifier.reporting.html import asset, environment, source_of
from delivery_verifier.reporting.leadership import Clock, Leadership, clock, injection_name, subject_topic
from delivery_verifier.reporting.material import ARMS_DRAWN, Material, arms_drawn, arms_loaded, read
from delivery_verifier.reporting.report.cases import groups
from delivery_verifier.reporting.report.events import EVENTS_SHOWN, events
from delivery_verifier.reporting.report.inventory import DATA_DOCS, parts, steps
from delivery_verifier.reporting.report.proofs import hit_lines, proof_of
from delivery_verifier.reporting.report.reasons import reasons
from delivery_verifier.reporting.report.story import stories
from delivery_verifier.reporting.report.tables import (
    finding_rows,
    gap_rows,
    invariant_rows,
    setting_rows,
)
from delivery_verifier.reporting.words import producer_properties
from delivery_verifier.run_directory import tables
from delivery_verifier.run_directory.cases import CASES_LISTED

FAULTS_SHOWN = 20
"""The greatest number of fault injections that the page describes. The page also says how many more there are."""


def write(run_dir: Path, verdict: RunVerdict | None, into: Path) -> None:
    """Writes the page of a run to the file `into`. If `into` is a folder, the file is report.html in this folder.

    The page shows every part of the run directory that can be read, and names the missing parts. If `verdict` is None,
    the run was never judged, and the page says so. Raises OSError if the page cannot be written.
    """
    file = into / "report.html" if into.is_dir() else into
    file.write_text(render(run_dir, verdict), encoding="utf-8", newline="\n")


def render(run_dir: Path, verdict: RunVerdict | None) -> str:
    """Returns the page of the run in `run_dir` as HTML text. `verdict` is None if the run was not judged."""
    material = read(run_dir, verdict)
    zero = clock(material)
    case_groups = groups(material, zero)
    spreads = latency.spreads(material)
    plots = {
        "timeline-plot": timeline.timeline(material, zero, "timeline-plot"),
        "rates-plot": timeline.rates(material, zero, "rates-plot"),
        "latency-plot": distribution(spreads, "latency-plot"),
    }
    plot_data = {target: plot for target, plot in plots.items() if plot is not None}
    scripts = [bokeh_script(), asset("page.js")] if plot_data else [asset("page.js")]
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            **_sections(material, zero),
            blocks=blocks_of(verdict, material.path.parent),
            look_for=LOOK_FOR,
            groups=case_groups,
            spreads=spreads,
            latency_known=material.table(tables.LATENCY) is not None,
            stories=stories(material, zero, case_groups),
            plots=list(plot_data),
            plot_data=_json(plot_data),
            scripts=[Markup(script) for script in scripts],
            policy=" ".join(source_of(script) for script in scripts),
            style=Markup(asset("page.css")),
            missing=material.missing,
        )
    )


def _sections(material: Material, zero: Clock) -> dict[str, Any]:
    """Returns values for the template's variables, by name. `zero`: the clock, which turns times into text."""
    verdict, scenario = material.verdict, material.scenario
    arms = scenario.arms if scenario else ()
    run_id = _run_id(material)
    return {
        "verdict": verdict,
        "name": verdict.verdict if verdict else "NO VERDICT",
        "run_id": run_id,
        "scenario": scenario,
        "audit": scenario.audit if scenario else None,
        "timed": material.is_timed,
        "subject_topic": subject_topic(material),
        "tone": run_tone(verdict),
        "arms": [(arm, finding_rows(arm, zero.text)) for arm in verdict.arms] if verdict else [],
        "events": events(material, zero),
        "legend": _legend(material),
        "invariants": invariant_rows(material.table(tables.INVARIANTS), verdict.invariants if verdict else ()),
        "gaps": gap_rows(material, zero),
        "producer_settings": setting_rows(
            # Nobody knows which client wrote the records of an audit.
            arm.profile.producer if scenario and scenario.audit else producer_properties(arm)
            for arm in arms
        ),
        "topic_settings": setting_rows(arm.profile.topic for arm in arms),
        "application_settings": setting_rows(application_properties(arm.application) for arm in arms),
        "reasons": reasons(verdict),
        "injections": [
            (injection, injection_name(injection), proof_of(injection), hit_lines(injection))
            for injection in material.injections[:FAULTS_SHOWN]
        ],
        "injections_not_shown": max(0, len(material.injections) - FAULTS_SHOWN),
        "injection_names": {injection.id: injection_name(injection) for injection in material.injections},
        "time_text": zero.text,
        "times_from_load": zero.from_load_start,
        "cases_known": material.table(tables.ANOMALIES) is not None,
        "injections_known": all(part.name != "injections.json" for part in material.missing),
        "steps": steps(material),
        "files": parts(material),
        "data_docs": DATA_DOCS,
        "again": verdict.repeat if verdict else scenario.command if scenario else "",
        "rejudge": f"kdv reconcile {shlex.quote(f'runs/{run_id}')}",
        "cases_shown": CASES_LISTED,
        "events_shown": EVENTS_SHOWN,
        "lanes_shown": LANES_SHOWN,
        "bands_shown": bands.BANDS_DRAWN,
        "arms_shown": ARMS_DRAWN,
        "arm_count": len(arms_loaded(material)),
        "fault_count": len(material.injections),
        "partition_count": len(Leadership(material.observations).partitions(subject_topic(material))),
    }


def _run_id(material: Material) -> str:
    """Returns the id of the run. It comes from the verdict or, if there is none, from the scenario. If there is no
    scenario either, returns the name of the run directory."""
    if material.verdict:
        return material.verdict.run_id
    return material.scenario.run_id if material.scenario else material.path.name


def _legend(material: Material) -> dict[str, list[tuple[str, str]]]:
    """Returns the legend of the plots. `arms`: the name and colour of each arm. `brokers`: the name and colour of each
    broker.

    The arms stand in the order of the plots, and the brokers in the order of their numbers.
    """
    topic = subject_topic(material)
    leadership = Leadership(material.observations)
    drawn = [
        observation
        for partition in leadership.partitions(topic)
        for observation in without_the_dead(leadership.observations(topic, partition), material.observations)
    ]
    brokers = sorted({broker for observation in drawn for broker in (observation.leader, *observation.isr)})
    return {
        "arms": [(arm, arm_colour(index)) for index, arm in enumerate(arms_drawn(material))],
        "brokers": [("no leader" if broker < 0 else f"broker {broker}", broker_colour(broker)) for broker in brokers],
    }


@cache
def bokeh_script() -> str:
    """Returns the script of the core of BokehJS. The charts need no other part of BokehJS.

    `</script` is escaped in the script, because it would end the script element of the page.
    """
    file = resources.files(bokeh) / "server" / "static" / "js" / "bokeh.min.js"
    return file.read_text(encoding="utf-8").replace("\r\n", "\n").replace("</script", "<\\/script")


def _json(item: dict[str, Any]) -> Markup:
    """Returns `item` as JSON, escaped so that no text in the JSON can end the script element around it."""
    text = json.dumps(item, separators=(",", ":"), allow_nan=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)
