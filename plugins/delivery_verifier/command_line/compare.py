"""The command `kdv compare`, which puts two runs side by side.

The user either names two stored runs, or lets the command run one scenario on two Kafka versions, or with two clients.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from delivery_verifier.command_line import options, parsers
from delivery_verifier.command_line.parsers import Add
from delivery_verifier.command_line.run import carry_out
from delivery_verifier.command_line.stored import run_dir_of
from delivery_verifier.model.inputs import BadInput

_EXAMPLES = """examples:
  kdv compare RUN RUN                                    two stored runs
  kdv compare --kafka-versions 4.2.1 4.3.1 --direct --profile safe --records 20000
                                                         one scenario on two versions, run now, one after the other
  kdv compare --clients librdkafka java:4.3.1 --direct   the same with two clients (in one run: kdv run --clients A,B)
"""


def register(add: Add) -> None:
    """Adds `kdv compare` to the command line by a call of `add` (see `parsers.Add`)."""
    sub = add("compare", compare, "Put two runs of one scenario side by side.", epilog=_EXAMPLES)
    sub.set_defaults(reads_stored_run=True)
    sub.add_argument("runs", nargs="*", metavar="RUN", help="two run directories, or names of runs")
    sub.add_argument("--kafka-versions", nargs=2, metavar="VERSION", help="run the scenario on both versions first")
    sub.add_argument(
        "--clients",
        dest="both_clients",
        nargs=2,
        metavar="CLIENT",
        help="run the scenario with each of both clients first",
    )
    sub.add_argument("--out", metavar="FILE.html", help="where the page goes (default: in the current folder)")
    sub.add_argument("--direct", action="store_true", help="without Airflow")
    sub.add_argument("--port", metavar="N", help="port of the local Airflow (default 8080, or KDV_PORT)")
    options.add(sub, only=frozenset(options.OF_VALUES) - {"kafka_version", "fail_step", "clients"})


def compare(arguments: argparse.Namespace) -> int:
    """Carries out `kdv compare`. Returns the exit code.

    For two stored runs, the exit code is 0, even if the runs differ. For two new runs, the exit code is the greater of
    the exit codes of the two verdicts. Raises BadInput if an option is not allowed.
    """
    from delivery_verifier.reporting.comparison import comparison
    from delivery_verifier.reporting.comparison import page as compare_page

    ways = [bool(arguments.kafka_versions), bool(arguments.both_clients), bool(arguments.runs)]
    if sum(ways) != 1 or len(arguments.runs) not in (0, 2):
        raise BadInput(
            f"runs is {' '.join(arguments.runs)!r}; allowed: two runs, or none with --kafka-versions A B, or none with "
            "--clients A B"
        )
    # An incomplete stored run is bad input, but an incomplete new run is a failure.
    arguments.reads_stored_run = bool(arguments.runs)
    new_runs = [] if arguments.runs else _run_both(arguments)
    runs = [run_dir for run_dir, _ in new_runs] or [run_dir_of(name) for name in arguments.runs]
    compared = comparison.compare(*runs)
    file = Path(arguments.out) if arguments.out else Path(f"{runs[0].name}-beside-{runs[1].name}.html")
    try:
        compare_page.write(compared, file)
    except OSError as error:
        why = f"out is {str(file)!r}: cannot be written ({error.strerror})"
        raise BadInput(f"{why}; name a file in a folder that exists") from None
    compare_page.text(compared, sys.stdout)
    print(f"page       {file.absolute()}")
    return max((code for _, code in new_runs), default=0)


def _run_both(arguments: argparse.Namespace) -> list[tuple[Path, int]]:
    """Runs the scenario once on each Kafka version that the user names, or with each client, with the same seed, load
    and settings.

    Returns the run directory and the exit code of each run.
    """
    from delivery_verifier.planning.build import scenario_from_params

    common, started_at = options.params_of(arguments), time.strftime("%Y%m%dT%H%M%S")
    field, word, values = (
        ("clients", "with", arguments.both_clients)
        if arguments.both_clients
        else ("kafka_version", "kafka", arguments.kafka_versions)
    )
    runs = {
        f"{started_at}-{number}-{word}-{value.replace(':', '-')}": {**common, field: value}
        for number, value in enumerate(values, 1)
    }
    for run_id, params in runs.items():
        scenario_from_params(params, run_id)  # bad input for either version ends the command before the first run
    results = [
        carry_out(params, run_id, direct=arguments.direct, port=parsers.port(arguments), quiet=False)
        for run_id, params in runs.items()
    ]
    return [(run_dir, verdict.exit_code) for verdict, run_dir, _ in results]
