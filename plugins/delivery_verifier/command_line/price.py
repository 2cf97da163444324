"""The command `kdv price`, which shows what each delivery profile costs and which guarantees the profile gives.

The figures come from new runs or from stored runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from delivery_verifier.catalogue.prices import CONDITIONS, PRICES
from delivery_verifier.catalogue.profiles import PRICED
from delivery_verifier.command_line import outputs
from delivery_verifier.command_line.parsers import Add
from delivery_verifier.command_line.stored import run_dir_of
from delivery_verifier.host import folders
from delivery_verifier.model.data import dumps
from delivery_verifier.model.inputs import choice

_EXAMPLES = """examples:
  kdv price                                       all priced profiles, one after the other: about a quarter of an hour
  kdv price --profiles acks_1,idempotent          two of them
  kdv price --from RUN RUN RUN --out price.html   the page again, from stored runs
"""


def register(add: Add) -> None:
    """Adds `kdv price` to the command line by a call of `add` (see `parsers.Add`)."""
    sub = add("price", price, "Measure what every profile costs, and what is got for it, each alone.", epilog=_EXAMPLES)
    sub.add_argument(
        "--profiles", default=",".join(PRICED), metavar="A,B", help=f"some of {','.join(PRICED)} (default: all)"
    )
    sub.add_argument(
        "--conditions", default=",".join(CONDITIONS), metavar="A,B", help=f"some of {','.join(CONDITIONS)}"
    )
    sub.add_argument(
        "--from", dest="runs", nargs="+", metavar="RUN", help="measure nothing: read these runs of price scenarios"
    )
    sub.add_argument(
        "--out", metavar="FILE.html", help="where the page goes (default: price.html in the current folder)"
    )
    sub.add_argument("--json", action="store_true", help="print the figures as JSON and nothing else")


def price(arguments: argparse.Namespace) -> int:
    """Carries out `kdv price`. Returns 0 for stored runs, and the greatest exit code of the runs for new runs.

    A new run has the exit code 0 if its verdict is HELD or VIOLATED, because a measurement expects no particular
    verdict. Raises BadInput if an option is not allowed.
    """
    from delivery_verifier.host import machine
    from delivery_verifier.reporting.price import page as price_page
    from delivery_verifier.reporting.price import price as prices

    file = outputs.destination("--out", arguments.out or "price.html")
    arguments.reads_stored_run = arguments.runs is not None
    code, runs = (0, [run_dir_of(name) for name in arguments.runs]) if arguments.runs else _measure(arguments)
    priced = prices.price(runs, machine.describe())
    price_page.write(priced, file)
    if arguments.json:
        sys.stdout.write(dumps(priced).decode())
        return code
    price_page.text(priced, sys.stdout)
    print(f"page       {file.absolute()}")
    return code


def _measure(arguments: argparse.Namespace) -> tuple[int, list[Path]]:
    """Runs the selected measurements with one Spark session. Returns the greatest exit code, and the run
    directories."""
    from delivery_verifier.host import processes
    from delivery_verifier.pipeline import direct
    from delivery_verifier.pipeline.local_spark import prepare_spark
    from delivery_verifier.progress.follower import Follower

    names = _selected(arguments)
    folders.require_writable()
    prepare_spark()
    from spark_jobs.session.classic import end, local_session

    started_at, code = time.strftime("%Y%m%dT%H%M%S"), 0
    runs: list[Path] = []
    spark = local_session()
    try:
        for number, name in enumerate(names, 1):
            run = folders.run_directory_name(f"{started_at}-{name}")
            with Follower(folders.runs_dir() / run, quiet=arguments.json) as follower:
                follower.say(f"{number} of {len(names)}: {name}")
                fields = {"scenario": name, "owner": str(processes.myself())}
                verdict = direct.run(fields, run, follower.step_changed, spark)
            code, runs = max(code, verdict.exit_code), [*runs, folders.runs_dir() / run]
    finally:
        end(spark)
    return code, runs


def _selected(arguments: argparse.Namespace) -> Sequence[str]:
    """Returns the names of the measurements (see PRICES) that --profiles and --conditions select, profile by profile.

    Raises BadInput if a profile or a condition is unknown.
    """
    profiles = [choice("profiles", name, PRICED) for name in arguments.profiles.split(",")]
    conditions = [choice("conditions", name, CONDITIONS) for name in arguments.conditions.split(",")]
    return [name for name in PRICES if name.split(".")[2] in profiles and name.split(".")[1] in conditions]
