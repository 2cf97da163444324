"""Tests that alternatives hold on real brokers. An arm that has what a report suggests keeps the claim that the subject
beside it has broken, under the same fault. tests/catalogue asks the same of the smoke scenarios, and of the scenario
SIDE_BY_SIDE.

tests/unit/advice/test_alternatives.py tests every suggestion by the contract, that every command is planned as printed,
and that some test tries each family. `make campaign PART=suggested_changes` types the commands.
"""

from __future__ import annotations

from support.alternatives import assert_tried_and_held
from support.readme import Example

from delivery_verifier.command_line.stored import read_verdict


def test_the_control_of_the_example_in_the_readme_has_what_its_report_suggests(breaking_example: Example) -> None:
    run = breaking_example.run
    (trial,) = assert_tried_and_held(run, read_verdict(run.path))
    assert (trial.change, trial.arm) == ("acks=all and enable.idempotence=true", "control-safe")


def test_report_and_terminal_print_the_command_that_tries_what_is_suggested(breaking_example: Example) -> None:
    run = breaking_example.run
    (advice,) = read_verdict(run.path).advice or ()
    (command,) = (option.command for option in advice.options if option.change == "acks=all")
    assert command in (run.path / "report.html").read_text() and command in breaking_example.said
