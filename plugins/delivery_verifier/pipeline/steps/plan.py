"""The step plan: turns what a user asked for into a scenario, checks the scenario, and makes the run directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from delivery_verifier import __version__
from delivery_verifier.cluster import lease
from delivery_verifier.cluster.backends import backend_of
from delivery_verifier.cluster.security import spark_options
from delivery_verifier.cluster.security.spark_options import Location
from delivery_verifier.host import folders, variables
from delivery_verifier.host.processes import process_of
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.sentinel import NOTE
from delivery_verifier.planning import external_runs, preflight
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.run_directory.run_directory import RunDirectory


def plan_from_params(
    params: Mapping[str, Any],
    name: str,
    external: ClusterAccess | None = None,
    spark: Location = spark_options.HERE,
    notes: Mapping[str, str] | None = None,
) -> Path:
    """Plans the run called `name`, and returns its run directory, which now holds scenario.json.

    Also points the link `latest` in the runs folder at this directory, unless the run is one of a sentinel.

    `params` holds the fields of a form or of a command line, by name. Raises BadInput if a field is wrong or the run
    exists already, and lease.HostBusy if another run uses this host. Raises Unfit if the host cannot do the run now,
    and Unavailable if the host can never do the run (see `preflight.require`).

    `external` names the cluster if somebody else runs it, and the fields do not. `spark` says where Spark will run. On
    such a cluster, also raises what `external_runs.planned` raises: above all ClusterUnfit, if the cluster lacks
    something that the run needs. `notes` are added to the manifest.
    """
    lease.require_free_host()  # fail fast if the host is busy
    variables.check()
    scenario = scenario_from_params(params, name)
    scenario.fail_if_asked("plan")
    if (access := external or ClusterAccess.of_fields(params)) is not None:
        scenario = external_runs.planned(access, scenario, spark)
    else:
        external_runs.refuse_observing(scenario)
    preflight.require(scenario)
    scenario = replace(scenario, versions=scenario.versions | backend_of(scenario.cluster).versions())
    run = RunDirectory(folders.runs_dir() / name)
    if (run.path / "scenario.json").exists():
        raise BadInput(f"run_id is {name!r}; allowed: one that no run has yet; {run.path} holds a run already")
    run.path.mkdir(parents=True, exist_ok=True)
    with run.writing("plan") as output:
        output.write_json("scenario.json", scenario)
        output.notes.update({"verifier": __version__, **(notes or {})})
        if owner := params.get("owner"):
            output.notes["owner"] = _owner(owner)
    if NOTE not in (notes or {}):  # a sentinel's runs would hide all others
        folders.point_latest_at(run.path)
    return run.path


def _owner(owner: object) -> str:
    """Returns `owner` as text. `owner` names a process, in the form `<pid>:<start time>`. When this process ends, the
    run ends, too.

    Raises BadInput if `owner` has another form.
    """
    text = str(owner)
    if process_of(text) is None:
        raise BadInput(f"owner is {text!r}; allowed: <pid>:<start time in clock ticks>, or nothing")
    return text
