"""kdv: the verifier from a terminal.

Exit codes: 0 everything as expected, 1 an arm did not end as expected, 2 INCONCLUSIVE, 64 bad input, 70 the run or
the program failed (there is no verdict), 75 another run holds this host.
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, get_args

import msgspec

from delivery_verifier import __version__, catalogue, doctor, home, processes
from delivery_verifier.cluster import lease
from delivery_verifier.progress import Follower
from delivery_verifier.runs import IncompleteRun, RunDirectory
from delivery_verifier.scenario import STEPS, BadInput, Claim, Pacing
from delivery_verifier.verdict import RunVerdict

BAD_INPUT, FAILED, BUSY = 64, 70, 75

_RUN_EXAMPLES = """examples:
  kdv run                                              the default: is a safe producer hurt by a killed leader?
  kdv run --profile acks_1 --claim at_least_once --fault pause_leader --records 20000
                                                       break it on purpose: this ends VIOLATED, exit code 1
  kdv run --profile idempotent --cycles 5 --direct     five faults in one run, without Airflow
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point. Returns the exit code; every expected failure is one line on stderr."""
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return int(arguments.command(arguments) or 0)
    except KeyboardInterrupt:
        return _fail(130, RuntimeError("interrupted; the run has been ended"))
    except Exception as error:  # told, with its code: nothing that failed is ever taken for a verdict
        return _fail(_code_of(error, arguments), error)


def _code_of(error: Exception, arguments: argparse.Namespace) -> int:
    """The exit code that stands for `error`. One that nobody foresaw is told with its traceback."""
    from delivery_verifier.orchestration.errors import EXPECTED

    if isinstance(error, lease.HostBusy):
        return BUSY
    of_a_stored_run = arguments.command in (report, reconcile) and isinstance(error, IncompleteRun)
    if isinstance(error, BadInput) or of_a_stored_run:
        return BAD_INPUT
    if not isinstance(error, EXPECTED):
        traceback.print_exc()
    return FAILED


def _terminate(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _fail(code: int, error: BaseException) -> int:
    print(f"kdv: {error}", file=sys.stderr)
    return code


def run(arguments: argparse.Namespace) -> int:
    """`kdv run`."""
    fields = _fields(arguments)
    run_id = arguments.run_id or f"{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(2)}"
    name = home.run_directory_name(run_id)
    follower = Follower(home.runs_dir() / name, quiet=arguments.json)
    with follower:
        if arguments.direct:
            from delivery_verifier import direct

            me = processes.myself()
            verdict = direct.run({**fields, "owner": f"{me.pid}:{me.started}"}, name, follower.step)
            url = None
        else:
            verdict, url = _run_through_airflow(fields, run_id, follower, arguments.port)
    _show(verdict, home.runs_dir() / name, url, as_json=arguments.json)
    return verdict.exit_code


def _run_through_airflow(
    fields: dict[str, Any], run_id: str, follower: Follower, port: int | None
) -> tuple[RunVerdict, str]:
    from delivery_verifier.orchestration import local
    from delivery_verifier.orchestration.client import ui_url
    from delivery_verifier.orchestration.run import run_through_airflow
    from delivery_verifier.orchestration.settings import DAG_ID
    from delivery_verifier.steps.plan import scenario_from_params

    scenario_from_params(fields, home.run_directory_name(run_id))  # bad input is told here, not in a task's log
    follower.say("bringing up Airflow on this host (first time about half a minute)")
    status = local.up(port)
    url = ui_url(status.url or "", DAG_ID, run_id)
    follower.say(f"Airflow is up; this run: {url}")
    run_dir = run_through_airflow(
        fields, run_id, lambda progress: follower.step(progress.step, progress.state, progress.elapsed_s), port=port
    )
    return read_verdict(run_dir), url


def read_verdict(run_dir: Path) -> RunVerdict:
    """The verdict of a finished run. Raises IncompleteRun if it has none."""
    run = RunDirectory(run_dir)
    run.require("conclude")
    return msgspec.json.decode((run.path / "verdict.json").read_bytes(), type=RunVerdict)


def _show(verdict: RunVerdict, run_dir: Path, url: str | None, as_json: bool) -> None:
    from delivery_verifier.report import text

    text.write(verdict, sys.stdout, as_json=as_json)
    if as_json:
        return
    print(f"report     {run_dir / 'report.html'}")
    print(f"data docs  {run_dir.parent / home.DATA_DOCS / 'index.html'}")
    if url is not None:
        print(f"Airflow    {url}\n           log in as admin; the password is in {_password_file()}")
    print(f"repeat     {RunDirectory(run_dir).scenario.command}")


def _password_file() -> Path:
    from delivery_verifier.orchestration.settings import passwords_file

    return passwords_file()


def up(arguments: argparse.Namespace) -> int:
    """`kdv up`."""
    from delivery_verifier.orchestration import local

    print(f"Airflow: {local.up(arguments.port).url}  (user admin, password in {_password_file()})")
    return 0


def down(_arguments: argparse.Namespace) -> int:
    """`kdv down`."""
    from delivery_verifier.orchestration import local

    print("Airflow is stopped" if local.down() else "Airflow was not running")
    return 0


def list_(arguments: argparse.Namespace) -> int:
    """`kdv list`."""
    if arguments.what in ("all", "profiles"):
        print("profiles")
        for profile in catalogue.PROFILES.values():
            print(f"  {profile.name:<14} {profile.summary}")
    if arguments.what in ("all", "faults"):
        print("faults")
        for plan in catalogue.FAULTS.values():
            print(f"  {plan.name:<14} {plan.summary}")
    if arguments.what in ("all", "runs"):
        print(f"runs in {home.runs_dir()}")
        for scenario in sorted(home.runs_dir().glob("*/scenario.json")):
            print(f"  {scenario.parent.name:<40} {_verdict_word(scenario.parent)}")
    return 0


def _verdict_word(run_dir: Path) -> str:
    try:
        verdict = read_verdict(run_dir)
    except IncompleteRun:
        return "no verdict"
    return f"{verdict.verdict}{'' if verdict.green else ' (not as expected)'}  {verdict.scenario}"


def plan(arguments: argparse.Namespace) -> int:
    """`kdv plan`."""
    from delivery_verifier.planned import describe
    from delivery_verifier.scenario import dumps
    from delivery_verifier.steps.plan import scenario_from_params

    scenario = scenario_from_params(_fields(arguments), "planned")
    sys.stdout.write(dumps(scenario).decode() if arguments.json else describe(scenario))
    return 0


def report(arguments: argparse.Namespace) -> int:
    """`kdv report`."""
    run_dir = _run_dir(arguments.run)
    verdict = read_verdict(run_dir)
    _show(verdict, run_dir, None, as_json=arguments.json)
    return verdict.exit_code


def reconcile(arguments: argparse.Namespace) -> int:
    """`kdv reconcile`: judges a stored run again, from its log/ and ledger/, with no Kafka alive."""
    from delivery_verifier import direct
    from delivery_verifier.steps.conclude import judge_and_report
    from delivery_verifier.steps.validate import validate

    run_dir = _run_dir(arguments.run)
    RunDirectory(run_dir).require("plan", "produce", "inject_fault", "settle", "read_topic")
    direct.reconcile(run_dir, from_log=True)
    validate(run_dir)
    verdict = judge_and_report(run_dir)
    _show(verdict, run_dir, None, as_json=arguments.json)
    return verdict.exit_code


def _run_dir(given: str) -> Path:
    path = Path(given) if Path(given).is_dir() else home.runs_dir() / given
    if not (path / "scenario.json").is_file():
        raise BadInput(f"{given!r} is no run directory, nor the name of a run in {home.runs_dir()}")
    return path


def doctor_(arguments: argparse.Namespace) -> int:
    """`kdv doctor`."""
    if arguments.heal:
        for line in doctor.heal():
            print(f"healed: {line}")
    checks = doctor.examine()
    if arguments.json:
        print(json.dumps([msgspec.to_builtins(check) for check in checks], indent=2))
    else:
        for check in checks:
            print(f"{'ok  ' if check.ok else 'FAIL'} {check.name:<10} {check.found}")
            if not check.ok:
                print(f"     remedy: {check.remedy}")
    return 0 if all(check.ok for check in checks) else 1


def _fields(arguments: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in RUN_FIELDS if getattr(arguments, name) is not None}


RUN_FIELDS: dict[str, dict[str, Any]] = {
    "profile": {"choices": list(catalogue.PROFILES), "help": "delivery settings to be verified (default safe)"},
    "fault": {"choices": list(catalogue.FAULTS), "help": "what is done to the brokers (default kill_leader)"},
    "claim": {"choices": get_args(Claim), "help": "what must hold: the settings' contract (default), or more"},
    "records": {"type": int, "help": "at least so many records from the subject (default 20000)"},
    "rate": {"type": int, "help": "records per second and arm; without it the load is paced"},
    "pacing": {"choices": get_args(Pacing), "help": "spread over the planned duration (default), or flat_out"},
    "producers": {"type": int, "help": "producer processes of the subject (default 1)"},
    "partitions": {"type": int, "help": "partitions per topic (default 3)"},
    "replication_factor": {"type": int, "help": "replicas per partition (default 3)"},
    "min_insync_replicas": {"type": int, "help": "min.insync.replicas of the subject's topic (default: the profile's)"},
    "payload_bytes": {"type": int, "help": "bytes per record, at least 70 (default 100)"},
    "cycles": {"type": int, "help": "how often the fault is repeated in one load (default 1)"},
    "seed": {"type": int, "help": "which broker leads which partition (default 0)"},
    "kafka_version": {"help": "version of the brokers (default 4.3.1)"},
    "min_exposed": {"type": int, "help": "fewer exposed records than this forbid HELD (default 100, or 1%% of records)"},
    "duration_s": {"type": float, "help": "seconds over which a spread load is paced (default: the fault's, + 4)"},
    "fail_step": {"choices": STEPS, "help": "make one step fail at its entry, to see the alarm work"},
}
"""Options of `run` and `plan`, which are the fields of the Airflow form as well."""


class _Parser(argparse.ArgumentParser):
    """Ends with 64 on a mistyped option: argparse's own 2 would say INCONCLUSIVE."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(BAD_INPUT, f"kdv: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kdv", description="Finds out, record by record, whether Kafka settings lose or duplicate.",
        epilog=__doc__.split("\n\n", 1)[1] if __doc__ else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"kdv {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Any, text: str, **more: Any) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name, help=text, description=text, formatter_class=argparse.RawDescriptionHelpFormatter, **more
        )
        sub.set_defaults(command=command)
        return sub

    one = add("run", run, "Run one scenario and give a verdict.", epilog=_RUN_EXAMPLES)
    _add_fields(one)
    one.add_argument("--run-id", help="name of the run (default: the time)")
    one.add_argument("--direct", action="store_true", help="without Airflow: the same steps in this process")
    one.add_argument("--port", type=int, help="port of the local Airflow (default 8080, or KDV_PORT)")
    one.add_argument("--json", action="store_true", help="print verdict.json and nothing else")
    dry = add("plan", plan, "Say what a run would do to which cluster, without doing it.")
    _add_fields(dry)
    dry.add_argument("--json", action="store_true", help="print scenario.json")
    for name, command, text in (
        ("report", report, "Show the verdict of a finished run."),
        ("reconcile", reconcile, "Judge a stored run again from its files, with no Kafka alive."),
    ):
        sub = add(name, command, text)
        sub.add_argument("run", metavar="RUN_DIR", help="a run directory, or the name of a run")
        sub.add_argument("--json", action="store_true", help="print verdict.json and nothing else")
    add("list", list_, "List profiles, faults and runs.").add_argument(
        "what", nargs="?", default="all", choices=("all", "profiles", "faults", "runs")
    )
    add("up", up, "Bring up the local Airflow, for the UI and the nightly runs.").add_argument("--port", type=int)
    add("down", down, "Stop the local Airflow and everything it started.")
    check = add("doctor", doctor_, "Check this host, with a remedy for whatever is missing.")
    check.add_argument("--heal", action="store_true", help="end what a broken run left behind")
    check.add_argument("--json", action="store_true")
    return parser


def _add_fields(parser: argparse.ArgumentParser) -> None:
    for name, options in RUN_FIELDS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, **options)


if __name__ == "__main__":
    sys.exit(main())
