"""The commands `kdv run`, `kdv plan` and `kdv explain`.

`kdv run` runs one scenario. `kdv plan` says what a run would do. `kdv explain` says what settings promise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delivery_verifier.command_line import options, outputs, own_cluster, parsers
from delivery_verifier.command_line.parsers import Add
from delivery_verifier.command_line.stored import read_verdict, show
from delivery_verifier.host import folders
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.run_directory.judgeable import how_to_judge

if TYPE_CHECKING:
    from delivery_verifier.model.external_cluster import ClusterAccess
    from delivery_verifier.model.scenario import Scenario
    from delivery_verifier.progress.follower import Follower

_EXAMPLES = """examples:
  kdv run                                              the default: is a safe producer hurt by a killed leader?
  kdv run --profile acks_1 --claim at_least_once --fault pause_leader --records 20000
                                                       break it on purpose: this ends VIOLATED, exit code 1
  kdv run --profile idempotent --cycles 5 --direct     five faults in one run, without Airflow
  kdv run --scenario order.stalled_leader --clients librdkafka,java
                                                       each arm with both clients: the report says which client did it
  kdv run --application commit_after                   does a consumer that commits after applying skip anything?
"""


def register(add: Add) -> None:
    """Adds `kdv run`, `kdv plan` and `kdv explain` to the command line by calls of `add` (see `parsers.Add`)."""
    run_parser = add("run", run, "Run one scenario and give a verdict.", epilog=_EXAMPLES)
    options.add(run_parser)
    own_cluster.add(run_parser, runs=True, breaks=True)
    way = run_parser.add_argument_group("how it runs")
    way.add_argument("--direct", action="store_true", help="without Airflow: the same steps in this process")
    way.add_argument("--port", metavar="N", help="port of the local Airflow (default 8080, or KDV_PORT)")
    way.add_argument("--run-id", metavar="NAME", help="name of the run (default: the time)")
    output = run_parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print verdict.json and nothing else")
    outputs.add_junit(output)
    plan_parser = add("plan", plan, "Say what a run would do to which cluster, without doing it.")
    options.add(plan_parser)
    own_cluster.add(plan_parser, breaks=True)
    plan_parser.add_argument("--json", action="store_true", help="print scenario.json, or the check of the cluster")
    explain_parser = add("explain", explain, "Say what settings promise under a fault, by which rule, without any run.")
    options.add(
        explain_parser,
        only=(
            "scenario",
            "profile",
            "application",
            "fault",
            "claim",
            "min_insync_replicas",
            "replication_factor",
            "kafka_version",
        ),
    )
    explain_parser.add_argument("--json", action="store_true", help="print the explanation as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Carries out `kdv run`. Returns the exit code of the verdict."""
    run_id = folders.new_run_id() if arguments.run_id is None else arguments.run_id
    with outputs.junit(arguments.junit, run_id) as record:
        verdict, run_dir, url = _run(arguments, folders.check_run_id(run_id))
        record(verdict)
    show(verdict, run_dir, url, as_json=arguments.json)
    return verdict.exit_code


def _run(arguments: argparse.Namespace, run_id: str) -> tuple[RunVerdict, Path, str | None]:
    params, external = options.params_of(arguments), own_cluster.access_of(arguments, is_direct=arguments.direct)
    return carry_out(
        params,
        run_id,
        direct=arguments.direct,
        port=parsers.port(arguments),
        quiet=arguments.json,
        external=external,
    )


def carry_out(
    params: dict[str, Any],
    run_id: str,
    *,
    direct: bool,
    port: int | None,
    quiet: bool,
    external: ClusterAccess | None = None,
) -> tuple[RunVerdict, Path, str | None]:
    """Shows what the settings promise, and then runs the scenario.

    * `params`: the fields of the run (see `options.params_of`).
    * `direct`: whether to run without Airflow.
    * `port`: the port of the local Airflow, or None for the default.
    * `quiet`: if true, shows neither promises nor progress.
    * `external`: the cluster that somebody else runs, if it is to run there. Through Airflow, only its name goes.

    Returns the verdict, the run directory, and the URL of the run in Airflow (None if `direct` is true). If a field is
    not allowed, raises BadInput before anything is started. If an error ends the run without a verdict, raises that
    error. If the evidence of the run is complete all the same, a note of the error says how to judge the run.
    """
    from delivery_verifier.cluster import lease
    from delivery_verifier.cluster.lock_owner import busy_text
    from delivery_verifier.planning import preflight
    from delivery_verifier.progress.follower import Follower

    folders.require_writable()
    name = folders.run_directory_name(run_id)
    run_dir = folders.runs_dir() / name
    follower = Follower(run_dir, quiet=quiet)
    if (busy := lease.lock_owner()) is not None:
        if direct:
            raise lease.HostBusy(busy_text(busy))
        # Airflow lets the run wait only if the other run is one of its own. Otherwise the step plan fails.
        follower.say(busy_text(busy))
    scenario = _show_promises(params, follower, external)
    with _saying_how_to_judge(run_dir), follower:
        if direct:
            from delivery_verifier.host import processes
            from delivery_verifier.pipeline.direct import run as run_directly

            fields = {**params, "owner": str(processes.myself())}
            verdict = run_directly(fields, name, follower.step_changed, external=external)
            return verdict, run_dir, None
        if scenario is not None:
            # Raises Unavailable here, because a task of Airflow would only log the error.
            preflight.require(scenario)
        fields = params if external is None else {**params, **external.fields}
        return _run_through_airflow(fields, run_id, follower, port)


@contextmanager
def _saying_how_to_judge(run_dir: Path) -> Iterator[None]:
    """If an error ends the block, adds a note to it: how to judge the run, if its evidence is complete."""
    try:
        yield
    except BaseException as error:
        if note := how_to_judge(run_dir):
            error.add_note(note)
        raise


def _show_promises(
    params: dict[str, Any], follower: Follower, external: ClusterAccess | None = None
) -> Scenario | None:
    """Shows what the settings promise, and what the run cannot show, before anything is started. On a cluster that
    somebody else runs, they promise what that cluster allows, and its check is shown.

    Returns the scenario as far as it is known; None if only a task can read the connection to the cluster. Raises
    BadInput if a field is not allowed, and ClusterUnfit or ClusterUnknown as `external_runs.require_fit` does. Without
    this check, a task of Airflow would find the error, and only log it.
    """
    from delivery_verifier.catalogue.applications import application_lines
    from delivery_verifier.planning import beforehand, cluster_plan, external_runs
    from delivery_verifier.planning.build import scenario_from_params
    from delivery_verifier.planning.explanation import promises

    scenario = scenario_from_params(params, "planned")
    if external is None:
        external_runs.refuse_observing(scenario)
    else:
        if not own_cluster.is_known_here(external):
            external_runs.require_possible(scenario, external)
            follower.say(f"Airflow alone knows {external.cluster}: the log of the step plan says what is found there")
            return None
        scenario, checked = own_cluster.check(external, scenario)
        follower.say(cluster_plan.text(checked).rstrip())
        external_runs.require_fit(checked)
    for arm in scenario.subjects:
        texts = (*arm.profile.notes, *application_lines(arm.application), *beforehand.lines(scenario, arm))
        for line in (*texts, f"{arm.name} promises under {scenario.fault.name}:", *promises(scenario, arm)):
            follower.say(line)
    return scenario


def _run_through_airflow(
    params: dict[str, Any], run_id: str, follower: Follower, port: int | None
) -> tuple[RunVerdict, Path, str]:
    from delivery_verifier.local_airflow import lifecycle, offered
    from delivery_verifier.local_airflow.access import client_of
    from delivery_verifier.local_airflow.run import run_through_airflow
    from delivery_verifier.orchestration.client import ui_url
    from delivery_verifier.orchestration.names import DAG_ID
    from delivery_verifier.planning.consistency import as_conf

    follower.say("bringing up Airflow on this host (first time about half a minute)")
    status = lifecycle.up(port)
    url = ui_url(status.url or "", DAG_ID, run_id)
    follower.say(f"Airflow is up; this run: {url}")
    offered.wait(client_of(status.url or ""), params, follower.say)
    run_dir = run_through_airflow(
        as_conf(params),
        run_id,
        follower.step_changed,
        port=port,
    )
    return read_verdict(run_dir), run_dir, url


def plan(arguments: argparse.Namespace) -> int:
    """Carries out `kdv plan`: prints what a run would do, and runs nothing. Returns 0.

    If the user names a cluster, checks that cluster. Then returns 0 if it has all that the run needs, 69 if it lacks
    something, and 70 if something that the run needs is not known.
    """
    from delivery_verifier.model.data import dumps
    from delivery_verifier.planning import cluster_plan, external_runs
    from delivery_verifier.planning.build import scenario_from_params
    from delivery_verifier.planning.explanation import describe

    scenario = scenario_from_params(options.params_of(arguments), "planned")
    if (external := own_cluster.access_of(arguments)) is None:
        external_runs.refuse_observing(scenario)
        _write(arguments, dumps(scenario).decode(), describe(scenario))
        return 0
    scenario, checked = own_cluster.check(external, scenario)
    arms = describe(scenario).split("\n", 1)[1]  # without the line about a cluster of the verifier's own
    _write(arguments, dumps(checked).decode(), arms + cluster_plan.text(checked))
    return checked.exit_code


def explain(arguments: argparse.Namespace) -> int:
    """Carries out `kdv explain`: prints what the settings promise, and which rules say so. Returns 0."""
    from delivery_verifier import catalogue
    from delivery_verifier.model.data import dumps
    from delivery_verifier.planning import explanation
    from delivery_verifier.planning.build import scenario_from_params

    params = options.params_of(arguments)
    scenario = scenario_from_params(params, "explained")
    if name := params.get("scenario"):
        explained = explanation.explain_scenario(catalogue.SCENARIOS[name], scenario)
        _write(arguments, dumps(explained).decode(), explanation.scenario_text(explained))
        return 0
    of_subject = explanation.explain(scenario, scenario.subjects[0], arguments.consumer_config, arguments.written_for)
    _write(arguments, dumps(of_subject).decode(), explanation.explanation_text(of_subject))
    return 0


def _write(arguments: argparse.Namespace, as_json: str, text: str) -> None:
    """Prints `as_json` if the user asked for JSON, else `text`."""
    if arguments.json:
        sys.stdout.write(as_json)
    else:
        outputs.write_text(text)
