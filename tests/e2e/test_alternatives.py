"""Tests that alternatives hold on real brokers. An arm that has what a report suggests keeps the claim that the subject
beside it has broken, under the same fault. tests/catalogue asks the same of the smoke scenarios, and of the scenario
SIDE_BY_SIDE.

tests/unit/pages/test_alternatives.py tests every suggestion by the contract, and that some test tries each family.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.alternatives import assert_tried_and_held
from support.readme import Example, quoted

from delivery_verifier.command_line import main as cli
from delivery_verifier.command_line.stored import read_verdict
from delivery_verifier.model.scenario import FEWEST_RECORDS
from delivery_verifier.pages.material import read
from delivery_verifier.pages.report.changes import advices
from delivery_verifier.run import direct
from delivery_verifier.store.run_directory import RunDirectory


def test_the_control_of_the_example_in_the_readme_has_what_its_report_suggests(breaking_example: Example) -> None:
    run = breaking_example.run
    (trial,) = assert_tried_and_held(run, read_verdict(run.path))
    assert (trial.change, trial.arm) == ("acks=all and enable.idempotence=true", "control-safe")


def test_the_command_that_the_report_prints_ends_held(
    breaking_example: Example,
    kafka_spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command is typed as it is printed, with fewer records in less time, and without Airflow."""
    run = breaking_example.run
    (advice,) = advices(read(run.path, read_verdict(run.path)))
    (command,) = (option.command for option in advice.options if option.change == "acks=all")
    assert command in (run.path / "report.html").read_text() and command in breaking_example.said
    program, *words = shlex.split(command)
    words[words.index("--records") + 1] = str(FEWEST_RECORDS)
    with monkeypatch.context() as patch:
        own = direct.run
        patch.setattr(direct, "run", lambda *arguments: own(*arguments, kafka_spark))  # spares a JVM
        code = cli.main([*words, "--duration-s", "4", "--direct"])
    said = capsys.readouterr().out
    assert (program, code) == ("kdv", 0), said
    assert "HELD (as expected)" in said
    tried = RunDirectory(Path(quoted(r"^report +(\S+)$", said)).parent).read_scenario()
    asked = run.read_scenario()
    assert (tried.fault, tried.subjects[0].claim) == (asked.fault, asked.subjects[0].claim)
    assert (tried.subjects[0].profile.name, asked.subjects[0].profile.name) == ("acks_all", "acks_1")
