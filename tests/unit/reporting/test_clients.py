"""Tests that report, terminal, note, matrix, price and comparison name the client of each arm, and say which did it."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from support.catalogue_runs import arm as result

from delivery_verifier.model.client import Client
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.verdict import RunVerdict, WhichClient
from delivery_verifier.reporting import brief, terminal
from delivery_verifier.reporting.comparison.comparison import _arm_pairs, _properties, _versions
from delivery_verifier.reporting.matrix import columns, tables
from delivery_verifier.reporting.price.price import MeasuredRun, Price
from delivery_verifier.reporting.report import page
from delivery_verifier.run_directory.run_directory import RunDirectory

STORED = Path(__file__).parents[2] / "data" / "runs" / "violated"
SENTENCE = "acks_1 and acks_1-java: LOST with every client. Both: broker or protocol, not one client alone."


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, RunVerdict]:
    """The stored run of acks=1, as if its control safe had run with the Java client."""
    path = Path(shutil.copytree(STORED, tmp_path / "stored"))
    verdict = msgspec.json.decode((path / "verdict.json").read_bytes(), type=RunVerdict)
    arms = [replace(arm, client="Java 4.3.1") if arm.arm == "control-safe" else arm for arm in verdict.arms]
    said = WhichClient(arms=["acks_1"], anomaly="LOST", answer="every", clients=["librdkafka"], sentence=SENTENCE)
    return path, replace(verdict, arms=arms, which_client=[said])


def shown(verdict: RunVerdict) -> str:
    stream = io.StringIO()
    terminal.write(verdict, stream)
    return stream.getvalue()


def test_all_faces_say_which_client_did_it_and_name_the_client_of_each_arm(both: tuple[Path, RunVerdict]) -> None:
    path, verdict = both
    faces = [page.render(path, verdict), shown(verdict), "\n".join(brief.plain_lines(verdict))]
    assert all(SENTENCE in face for face in faces)
    assert "control, Java 4.3.1" in faces[1] and "subject, librdkafka" in faces[1]
    assert "(control, Java 4.3.1)" in faces[2] and "(under test, librdkafka)" in faces[2]
    assert "control, Java 4.3.1" in faces[0]
    assert SENTENCE in brief.note_text(verdict) or len(brief.note_text(verdict)) > brief.NOTE_LENGTH - 500


def test_a_run_with_librdkafka_alone_needs_no_word_for_it_beside_its_figures(both: tuple[Path, RunVerdict]) -> None:
    path, _ = both
    verdict = msgspec.json.decode((STORED / "verdict.json").read_bytes(), type=RunVerdict)
    assert "librdkafka" not in shown(replace(verdict, advice=[]))
    whole = page.render(path, verdict)
    assert "<code>client</code>" in whole, "the settings name it always"


def on(of: Scenario, client: Client) -> Scenario:
    """Returns the scenario as `kdv compare --clients` plans it for `client`: its weak control stays with librdkafka."""
    arms = [
        arm
        if arm.role == "canary" or "acks_0" in arm.name
        else replace(arm, client=client, name=f"{arm.name}-{client}")
        for arm in of.arms
    ]
    return replace(of, arms=tuple(arms))


def test_runs_with_different_clients_are_compared_arm_by_arm() -> None:
    of = RunDirectory(STORED).read_scenario()
    java = on(of, "java")
    pairs = {role: [] for role in ("subject", "control", "canary")}  # type: ignore[var-annotated]
    for role, arms in _arm_pairs(of, java):
        pairs[role].append([arm.name if arm else None for arm in arms])
    assert pairs["subject"] == [["acks_1", "acks_1-java"]]
    assert ["control-safe", "control-safe-java"] in pairs["control"]
    assert all(None not in names for names in pairs["control"])
    assert _properties(of, java) == _properties(java, of), "another client is what is compared, and no obstacle"
    assert (_versions(of)["clients"], _versions(java)["clients"]) == ("librdkafka", "Java 4.3.1, librdkafka")


def measured(condition: str, client: str, speed: float) -> MeasuredRun:
    none = dict.fromkeys(
        ("latency_ms_p50", "latency_ms_p99", "latency_ms_p999", "longest_gap_s", "lost", "duplicated", "reordered")
    )
    return MeasuredRun(
        run_id="r",
        profile="acks_1",
        condition=condition,  # type: ignore[arg-type]
        verdict="HELD",
        doubts=[],
        reported=1,
        records_per_s=speed,
        unanswered=0,
        client=client,
        **none,  # type: ignore[arg-type]
    )


def test_the_price_of_one_client_never_takes_the_place_of_anothers() -> None:
    runs = [measured("none", "Java 4.3.1", 2.0), measured("none", "", 1.0)]
    price = Price(
        conditions={}, rate=1, payload_bytes=1, machine="", measured_at="", versions={}, commit="", measured=runs
    )
    assert price.profiles == ["acks_1", "acks_1, Java 4.3.1"]
    assert [run.records_per_s for name in price.profiles if (run := price.run_under(name, "none"))] == [1.0, 2.0]


def test_the_matrix_has_a_column_for_each_client() -> None:
    cells = [tables._cell([result("acks_1", client=client)], 1, []) for client in ("Java 4.3.1", "")]
    assert [cell.profile for cell in cells] == ["acks_1, Java 4.3.1", "acks_1"]
    table = tables.Table("acks", "Acknowledgements", ["safe", "acks_1, Java 4.3.1", "acks_1"], [], [])
    assert [each.name for each in columns.columns([table])] == ["acks_1", "acks_1, Java 4.3.1", "safe"]
