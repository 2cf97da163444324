"""Tests of the command line: the exit code always says what really happened, because pipelines read it."""

from __future__ import annotations

import argparse
import logging

import pytest

from delivery_verifier.command_line import main as cli
from delivery_verifier.pipeline import direct, local_spark


@pytest.mark.parametrize("line", [["run", "--bogus"], ["run", "--fault", "meteor"], ["nonsense"], []])
def test_a_mistyped_command_line_is_bad_input_and_not_inconclusive(line: list[str]) -> None:
    try:
        ended: object = cli.main(line)
    except SystemExit as end:
        ended = end.code
    assert ended == cli.BAD_INPUT


@pytest.mark.parametrize(
    ("line", "usage", "refusal"),
    [
        ("run --profil acks_1", "run", "unrecognized option: --profil; did you mean --profile?"),
        ("run --rec=20000", "run", "unrecognized option: --rec; did you mean --records?"),
        ("plan --record 20000", "plan", "unrecognized option: --record; did you mean --records?"),
        ("catalogue --dir", "catalogue", "unrecognized option: --dir"),
        ("report x --jsn", "report", "unrecognized option: --jsn; did you mean --json?"),
        ("doctor --hea", "doctor", "unrecognized option: --hea; did you mean --heal?"),
        ("prune everything", "prune", "unrecognized arguments: everything"),
        ("--versio run", "", "unrecognized option: --versio; did you mean --version?"),
        ("rnu", "", "COMMAND is 'rnu'; allowed: run, plan, "),
        ("rnu", "", "did you mean run?"),
        (
            "list profile",
            "list",
            "what is 'profile'; allowed: all, profiles, applications, faults, scenarios, runs; did you mean",
        ),
    ],
)
def test_a_mistyped_word_starts_nothing_and_names_what_was_meant(
    line: str, usage: str, refusal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        cli._parser().parse_args(line.split())
    told = capsys.readouterr().err
    assert end.value.code == cli.BAD_INPUT and refusal in told
    assert told.startswith(f"usage: kdv {usage}".rstrip())


def test_no_option_of_any_command_may_be_abbreviated() -> None:
    commands = next(action for action in cli._parser()._actions if isinstance(action, argparse._SubParsersAction))
    for parser in (cli._parser(), *commands.choices.values()):
        assert isinstance(parser, cli.Parser) and not parser.allow_abbrev


def test_an_interruption_of_spark_is_reported_in_one_line_and_other_errors_in_full(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger(), "filters", [])
    monkeypatch.setattr(local_spark, "spark_jars", list)
    monkeypatch.setattr(local_spark, "java_home", lambda: "/nowhere")
    for name in ("JAVA_HOME", "SPARK_LOCAL_IP", "KDV_SPARK_JARS"):
        monkeypatch.setenv(name, "")

    def interrupted(*_: object) -> None:
        local_spark.prepare_spark()
        for error in (RuntimeError("of its own"), KeyboardInterrupt()):
            try:
                raise error
            except BaseException:
                logging.exception("%s while sending command.", type(error).__name__)
        raise KeyboardInterrupt

    monkeypatch.setattr("delivery_verifier.command_line.stored.list_", interrupted)
    assert cli.main(["list", "runs"]) == 130
    assert capsys.readouterr().err == "kdv: interrupted; the run has been ended\n"
    assert [entry.getMessage() for entry in caplog.records] == ["RuntimeError while sending command."]


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), RuntimeError("of its own")])
def test_an_interruption_that_the_tidying_up_of_another_hides_is_one_all_the_same(cause: BaseException) -> None:
    def work() -> None:
        try:
            raise cause
        except BaseException:
            raise OSError(107, "Transport endpoint is not connected")

    with pytest.raises(KeyboardInterrupt if isinstance(cause, KeyboardInterrupt) else OSError):
        direct._Steps("r", lambda progress: None).work("reconcile", work)
