"""The commands `kdv report`, `kdv reconcile` and `kdv list`.

`kdv report` shows the verdict of a stored run. `kdv reconcile` judges a stored run again. `kdv list` lists profiles,
applications, faults, scenarios and stored runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from delivery_verifier import catalogue
from delivery_verifier.command_line import outputs
from delivery_verifier.command_line.parsers import Add
from delivery_verifier.host import folders
from delivery_verifier.model.inputs import bad_input, nearest
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.run_directory.manifests import NOT_WRITTEN
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory


def register(add: Add) -> None:
    """Adds `kdv report`, `kdv reconcile` and `kdv list` to the command line by calls of `add` (see `parsers.Add`)."""
    for name, command, text in (
        ("report", report, "Show the verdict of a finished run."),
        ("reconcile", reconcile, "Judge a stored run again from its files, with no Kafka alive."),
    ):
        sub = add(name, command, text)
        sub.set_defaults(reads_stored_run=True)
        sub.add_argument("run", metavar="RUN_DIR", help="a run directory, the name of a run, or `latest`")
        sub.add_argument("--json", action="store_true", help="print verdict.json and nothing else")
        outputs.add_junit(sub)
        if command is report:
            outputs.add_bundle(sub)
    add("list", list_, "List profiles, applications, faults, scenarios and runs.").add_argument(
        "what", nargs="?", default="all", choices=("all", "profiles", "applications", "faults", "scenarios", "runs")
    )


def report(arguments: argparse.Namespace) -> int:
    """Carries out `kdv report`: shows the verdict of a stored run. Returns the exit code of this verdict."""
    with outputs.junit(arguments.junit, Path(arguments.run).name) as record:
        run_dir = run_dir_of(arguments.run)
        outputs.bundle(
            arguments, run_dir
        )  # before the verdict is read: a ticket is often about a run without a verdict
        read_scenario(run_dir)
        verdict = read_verdict(run_dir)
        record(verdict)
    show(verdict, run_dir, None, as_json=arguments.json)
    return verdict.exit_code


def reconcile(arguments: argparse.Namespace) -> int:
    """Carries out `kdv reconcile`: judges a stored run again from the log and the ledger in its run directory.

    Needs no running Kafka. Prints which version of the verifier judged. If another version made the run, a note of the
    verdict says so. Returns the exit code of the new verdict.
    """
    from delivery_verifier.pipeline.local_spark import own_session
    from delivery_verifier.pipeline.steps.conclude import judge_and_report
    from delivery_verifier.pipeline.steps.reconcile import reconcile as reconcile_from_log
    from delivery_verifier.pipeline.steps.validate import validate

    with outputs.junit(arguments.junit, Path(arguments.run).name) as record:
        run_dir = run_dir_of(arguments.run)
        read_scenario(run_dir)
        RunDirectory(run_dir).require("plan", "produce", "inject_fault", "settle", "read_topic")
        with own_session(run_dir) as spark:
            reconcile_from_log(run_dir, spark)
        validate(run_dir)
        verdict = judge_and_report(run_dir)
        record(verdict)
    show(verdict, run_dir, None, as_json=arguments.json)
    if not arguments.json:
        print(f"judged by  {RunDirectory(run_dir).manifest('conclude').notes['judged_by']}")
    return verdict.exit_code


def list_(arguments: argparse.Namespace) -> int:
    """Carries out `kdv list`: prints lists of the profiles, applications, faults, scenarios and stored runs, or the one
    list that the user names. Returns 0.

    Runs are in order of time, newest first.
    """
    from delivery_verifier.planning import consumers, user_applications
    from delivery_verifier.planning.own_settings import profiles

    if arguments.what in ("all", "profiles"):
        print("profiles")
        for profile in profiles.known().values():
            print(f"  {profile.name:<14} {profile.summary}")
        for file, why in profiles.unreadable().items():
            print(f"  {file} cannot be read: {why}")
    if arguments.what in ("all", "applications"):
        print("applications")
        for line in (*consumers.listing(), *user_applications.listing()):
            print(f"  {line}")
    if arguments.what in ("all", "faults"):
        print("faults")
        for plan in catalogue.FAULTS.values():
            print(f"  {plan.name:<16} {plan.summary}")
    if arguments.what in ("all", "scenarios"):
        print("scenarios")
        for entry in catalogue.ENTRIES.values():
            print(f"  {entry.name:<32} {entry.title} [{', '.join(entry.tags)}]")
    if arguments.what in ("all", "runs"):
        print(f"runs in {folders.runs_dir()}")
        for run in folders.stored_runs():
            print(f"  {_planned_at(run)}  {run.name:<44} {_verdict_word(run)}")
    return 0


def _planned_at(run_dir: Path) -> str:
    """Returns when the run was planned, in local time, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime((run_dir / "scenario.json").stat().st_mtime))


def _verdict_word(run_dir: Path) -> str:
    try:
        verdict = read_verdict(run_dir)
    except IncompleteRun as error:
        return f"no verdict: {error}"
    return f"{verdict.verdict}{'' if verdict.green else ' (not as expected)'}  {verdict.scenario}"


def read_scenario(run_dir: Path) -> Scenario:
    """Returns the scenario of the run in `run_dir`.

    Raises IncompleteRun if the scenario is missing or was altered after the step `plan`. Raises BadInput if the content
    of the scenario is malformed.
    """
    run = RunDirectory(run_dir)
    scenario = run.read_scenario()
    run.require("plan")
    return scenario


def read_verdict(run_dir: Path) -> RunVerdict:
    """Returns the verdict of a finished run. Raises IncompleteRun if there is no verdict, or if the verdict was
    altered."""
    return RunDirectory(run_dir).verdict()


def show(verdict: RunVerdict, run_dir: Path, url: str | None, as_json: bool) -> None:
    """Prints a verdict, the paths of its evidence, and the command that repeats the run.

    `url` is the URL of the run's page in Airflow, or None. If `as_json` is true, prints only the verdict, as JSON. If
    the verdict cannot be printed, e.g. because the reader of a pipe has gone, logs a warning: the verdict is stored.
    """
    outputs.try_to_print(f"the text of the verdict {verdict.verdict}", lambda: _print(verdict, run_dir, url, as_json))


def _print(verdict: RunVerdict, run_dir: Path, url: str | None, as_json: bool) -> None:
    from delivery_verifier.reporting import terminal as text

    if as_json:
        text.write(verdict, sys.stdout, as_json=True)
        return
    run = RunDirectory(run_dir)
    text.write(verdict, sys.stdout, runs=run_dir.parent)
    print(f"report     {_location(run, 'conclude', run_dir / 'report.html')}")
    print(f"data docs  {_location(run, 'validate', run_dir.parent / folders.DATA_DOCS / 'index.html')}")
    if url is not None:
        print(f"Airflow    {url}\n           log in as admin; the password is in {password_file()}")
    print(f"repeat     {verdict.repeat}")


def _location(run: RunDirectory, step: str, file: Path) -> str:
    """Returns the path of a file that `step` has written or, if it could not write the file, the reason."""
    notes = run.manifest(step).notes
    reasons = [text for name, text in notes.items() if name.startswith(NOT_WRITTEN)]
    return f"not written: {reasons[0]}" if reasons else str(file)


def password_file() -> Path:
    """Returns the file in which the local Airflow keeps its passwords."""
    from delivery_verifier.local_airflow.settings import passwords_file

    return passwords_file()


def run_dir_of(name: str) -> Path:
    """Returns the run directory that `name` stands for. `name` is a path, or the name of a run in the folder of runs.

    Raises BadInput if there is no such run directory.
    """
    allowed = f"a run directory, or the name of a run in {folders.runs_dir()}"
    try:
        path = Path(name) if Path(name).is_dir() else folders.runs_dir() / Path(name).name
        is_run = bool(name) and (path / "scenario.json").is_file()
        runs = [run.name for run in folders.stored_runs()]
    except OSError as error:
        raise bad_input("run", name, allowed, f"it cannot be read: {error.strerror}") from None
    is_named = (path.is_dir() and path == Path(name)) or Path(name).name == name
    if is_run and is_named:
        return path.resolve() if path.is_symlink() else path
    if name == folders.LATEST and not runs:
        raise bad_input("run", name, allowed, "there is no run yet; `kdv run` makes one")
    if Path(name).name in ("scenario.json", "verdict.json", "report.html") and Path(name).is_file():
        raise bad_input("run", name, allowed, f"give its folder: {Path(name).parent}")
    suggestion = nearest(Path(name).name, runs)
    raise bad_input("run", name, allowed, f"did you mean {suggestion}?" if suggestion else "`kdv list runs` names them")
