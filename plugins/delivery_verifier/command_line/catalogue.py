"""The command `kdv catalogue`, which runs many scenarios one after another, and writes one page about all of them."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from delivery_verifier.command_line import outputs, own_cluster, parsers
from delivery_verifier.command_line.parsers import Add
from delivery_verifier.host import folders
from delivery_verifier.host.optional import optional
from delivery_verifier.model.catalogue_run import CatalogueRun, Item
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.run_directory import catalogue_runs
from delivery_verifier.suite import selection

if TYPE_CHECKING:
    from delivery_verifier.model.external_cluster import ClusterAccess
    from delivery_verifier.suite.loop import AttemptListener

WRITING_S = 300.0
"""How long the writing of a page or table about a catalogue run may take, in seconds. No verdict rests on it."""
_EXAMPLES = """examples:
  kdv catalogue --list                                 what there is, and whether this host can run it
  kdv catalogue --tag smoke --direct                   the quick ones, without Airflow
  kdv catalogue acks_1.frozen_followers --direct       one of them
  kdv catalogue --direct --repeat 3 --expect-unavailable power,network
                                                       everything three times, on a host without root
  kdv catalogue --direct --tag smoke --clients librdkafka,java
                                                       the quick ones with both clients; what one of them cannot do
                                                       is UNAVAILABLE
  kdv catalogue --cluster staging                      what fits a cluster that somebody else runs; the rest is
                                                       UNAVAILABLE there
Exit codes: 0 green, 1 something is not as expected (also a scenario that this host cannot run, unless that was
expected), 2 nothing worse than INCONCLUSIVE, 70 something failed.
"""


def register(add: Add) -> None:
    """Adds `kdv catalogue` to the command line by a call of `add` (see `parsers.Add`)."""
    sub = add("catalogue", catalogue, "Run scenarios of the catalogue, and give one page for all.", epilog=_EXAMPLES)
    sub.add_argument("names", nargs="*", metavar="NAME", help="scenarios (default: all); `kdv catalogue --list`")
    sub.add_argument("--tag", default="", help="only scenarios with this tag, e.g. smoke")
    sub.add_argument("--list", action="store_true", help="only say which scenarios these are")
    sub.add_argument("--direct", action="store_true", help="without Airflow: in this process, with one Spark session")
    sub.add_argument("--repeat", metavar="N", default=1, help="run everything N times (with --direct)")
    sub.add_argument(
        "--clients",
        metavar="NAMES",
        default="",
        help="librdkafka,java: each arm with each client, under one fault, and who did it (with --direct)",
    )
    sub.add_argument("--resume", metavar="ID", help="take up a catalogue run that was interrupted (with --direct)")
    sub.add_argument(
        "--expect-unavailable",
        metavar="WORDS",
        default=selection.expected_here(),
        help="capabilities (power,network), kinds or names that may be unavailable on this host",
    )
    sub.add_argument("--out", metavar="FILE.html", help="copy the page to this file")
    sub.add_argument(
        "--results", metavar="FOLDER", help="write a table of results into this folder, as in docs/results"
    )
    sub.add_argument("--port", metavar="N", help="port of the local Airflow (default 8080, or KDV_PORT)")
    own_cluster.add(sub, runs=True, breaks=True)


def catalogue(arguments: argparse.Namespace) -> int:
    """Carries out `kdv catalogue`. Returns 0 with --list. Without --list, returns the exit code of the catalogue
    run."""
    from delivery_verifier.reporting.matrix.markdown import document
    from delivery_verifier.suite import begin
    from delivery_verifier.suite.progress import listing, summary

    external = own_cluster.access_of(arguments, is_direct=arguments.direct or arguments.list)
    if arguments.list:
        entries = selection.entries(arguments.names, arguments.tag)
        sys.stdout.write(listing([(entry, begin.unavailable(entry, external, arguments.clients)) for entry in entries]))
        return 0
    copy = outputs.destination("--out", arguments.out) if arguments.out else None
    results = (
        outputs.destination(
            "--results", f"{arguments.results}/catalogue-{date.today()}{'-clients' if arguments.clients else ''}.md"
        )
        if arguments.results
        else None
    )
    folders.require_writable()
    finished = (_run_directly if arguments.direct else _run_through_airflow)(arguments, external)
    page = catalogue_runs.directory(finished.id) / catalogue_runs.PAGE
    outputs.try_to_print("the text of the catalogue run", lambda: summary(finished, page, sys.stdout))
    if copy is not None:
        optional(f"--out {copy}", lambda: shutil.copyfile(page, copy), WRITING_S)
    if results is not None:
        optional(f"--results {results}", lambda: results.write_text(document(finished), encoding="utf-8"), WRITING_S)
    return finished.exit_code


def _run_directly(arguments: argparse.Namespace, external: ClusterAccess | None) -> CatalogueRun:
    """Runs the scenarios in this process. Returns the finished catalogue run.

    Raises HostBusy if another run uses this host, and BadInput if an option is not allowed.
    """
    from delivery_verifier.cluster import lease
    from delivery_verifier.reporting.matrix import page
    from delivery_verifier.suite.directly import runner
    from delivery_verifier.suite.loop import Loop
    from delivery_verifier.suite.progress import Progress

    lease.require_free_host()
    started, progress = _new_or_resumed(arguments, external), Progress(sys.stderr)
    progress.begin(started, f"if it is interrupted: kdv catalogue --direct --resume {started.id}")
    listener = _listener_that_writes(page.write, progress.attempt_ended)
    with runner(progress.step_changed, external=started.external, clients=started.clients) as direct_runner:
        finished = Loop(started, direct_runner, listener).run()
    optional(catalogue_runs.PAGE, lambda: page.write(finished), WRITING_S)
    return finished


def _new_or_resumed(arguments: argparse.Namespace, external: ClusterAccess | None) -> CatalogueRun:
    """Returns the catalogue run that --resume names or, without --resume, a new one. Raises BadInput if an option is
    not allowed."""
    from delivery_verifier.suite import begin

    if not arguments.resume:
        return begin.begin(
            folders.new_run_id(),
            names=arguments.names,
            tag=arguments.tag,
            expect_unavailable=arguments.expect_unavailable,
            rounds=arguments.repeat,
            direct=True,
            external=external,
            clients=arguments.clients,
        )
    if (
        any((arguments.names, arguments.tag, arguments.expect_unavailable, arguments.clients, external))
        or arguments.repeat != 1
    ):
        raise BadInput(
            f"resume is {arguments.resume!r}, which has its scenarios already: give no names, tag, repeat, clients, "
            "expect_unavailable or cluster beside it"
        )
    return begin.resume(arguments.resume)


def _listener_that_writes(write: Callable[[CatalogueRun], Path], listener: AttemptListener) -> AttemptListener:
    """Returns a function to be called after each run of a scenario. This function calls `listener`, and then `write`,
    which writes the page of the catalogue run anew."""

    def listen_and_write(catalogue: CatalogueRun, item: Item) -> None:
        listener(catalogue, item)
        optional(catalogue_runs.PAGE, lambda: write(catalogue), WRITING_S)

    return listen_and_write


def _run_through_airflow(arguments: argparse.Namespace, external: ClusterAccess | None) -> CatalogueRun:
    """Runs the scenarios through the local Airflow. Returns the finished catalogue run.

    Raises BadInput if an option is not allowed.
    """
    from delivery_verifier.local_airflow import lifecycle
    from delivery_verifier.local_airflow.run_catalogue import item_of, run_catalogue_through_airflow
    from delivery_verifier.orchestration.client import ui_url
    from delivery_verifier.orchestration.names import CATALOGUE_DAG_ID
    from delivery_verifier.orchestration.tasks.verify_catalogue import attempt_of
    from delivery_verifier.suite import begin
    from delivery_verifier.suite.progress import Progress

    if arguments.resume or arguments.repeat != 1 or arguments.clients:
        raise BadInput(
            "direct is not given; allowed without it: none of --resume, --repeat and --clients; in Airflow, clear the "
            "cells of run_scenario that are to run again"
        )
    name, progress = folders.new_run_id(), Progress(sys.stderr)
    planned = begin.new_catalogue_run(
        name,
        names=arguments.names,
        tag=arguments.tag,
        expect_unavailable=arguments.expect_unavailable,
        external=external if external is not None and own_cluster.is_known_here(external) else None,
    )
    progress.say("bringing up Airflow on this host (first time about half a minute)")
    url = ui_url(lifecycle.up(parsers.port(arguments)).url or "", CATALOGUE_DAG_ID, name)
    progress.begin(planned, f"to follow it: {url}")
    known = planned

    def record_end(run_id: str, state: str) -> None:
        nonlocal known
        if (item := item_of(known, run_id)) is not None:
            changed = replace(item, attempts=(*item.attempts, attempt_of(run_id, state)))
            known = replace(known, items=tuple(changed if other is item else other for other in known.items))
            progress.attempt_ended(known, changed)

    conf = {"names": arguments.names, "tag": arguments.tag, "expect_unavailable": arguments.expect_unavailable}
    conf |= external.fields if external is not None else {}
    return run_catalogue_through_airflow(conf, name, record_end, port=parsers.port(arguments))
