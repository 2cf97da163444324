"""Begins a catalogue run, which runs many entries of the catalogue one after another. Also resumes a catalogue run that
began earlier.

A catalogue run consists of items. An item is one entry in one round, and a round runs every selected entry. In this
module, an attempt is one run of an item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from delivery_verifier.catalogue.entry import Entry, build, cluster_of
from delivery_verifier.cluster.backend import Unavailability
from delivery_verifier.cluster.backends import backend_of, default_name
from delivery_verifier.cluster.external.cluster import SharedCluster
from delivery_verifier.host import folders, machine
from delivery_verifier.model.catalogue_run import CatalogueRun, Item
from delivery_verifier.model.client import parse
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.fault_plan import capabilities_of
from delivery_verifier.model.inputs import BadInput, bad_input, whole
from delivery_verifier.model.scenario import ClusterSpec, Scenario
from delivery_verifier.planning import external_runs
from delivery_verifier.planning.consistency import check_scenario
from delivery_verifier.planning.provenance import commit, versions_of
from delivery_verifier.run_directory import catalogue_runs
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.suite import selection
from delivery_verifier.suite.loop import now
from delivery_verifier.verdict.external import UNSHOWN

MOST_ROUNDS = 100
"""The greatest number of rounds in one catalogue run. Each round runs every selected entry."""
ELSEWHERE = "a cluster of its own"
"""What an entry needs that can be run on no cluster that somebody else runs."""
OTHER_CLIENTS = "other clients"
"""What an entry needs that cannot be run with the clients that the user named."""


def begin(name: str, *, direct: bool, **selected: Any) -> CatalogueRun:
    """Returns a new catalogue run called `name`, and writes it to the file catalogue.json in its directory.

    `direct` says whether the entries run without Airflow. `selected` has further arguments of `new_catalogue_run`.
    Raises BadInput if a catalogue run of this name exists already, or if an argument is not allowed.
    """
    if (catalogue_runs.directory(name) / catalogue_runs.FILE).exists():
        raise bad_input(
            "catalogue run", name, "a name that none has yet", f"take it up again with: kdv catalogue --resume {name}"
        )
    catalogue = new_catalogue_run(name, direct=direct, **selected)
    catalogue_runs.write(catalogue)
    return catalogue


def new_catalogue_run(
    name: str,
    *,
    names: Sequence[str] = (),
    tag: str = "",
    expect_unavailable: str = "",
    rounds: object = 1,
    direct: bool = False,
    external: ClusterAccess | None = None,
    clients: str = "",
) -> CatalogueRun:
    """Returns a new catalogue run called `name`. Writes no file.

    `names` and `tag` select the entries (see `selection.entries`). `expect_unavailable` names what the user expects
    this host to be unable to run (see `selection.expectable`). `rounds` says how often every selected entry is to be
    run. `direct` says whether the entries run without Airflow. `external` names the cluster, if somebody else runs it:
    it is checked for each entry. `clients`: the clients with each of which the arms run (see `model.client.parse`).
    Empty: those of each entry. Raises BadInput if an argument is not allowed, and the errors of `external_runs.check`.
    """
    entries, expected_unavailable = selection.entries(names, tag), selection.expectable(expect_unavailable)
    round_count = whole("repeat", rounds, 1, MOST_ROUNDS)
    if clients:
        parse(clients, "clients")
    items = [_item(entry, expected_unavailable, external, clients) for entry in entries]
    return CatalogueRun(
        id=name,
        wanted=_selection_text(names, tag)
        + (f" on {external.shown}" if external else "")
        + (f" with {clients}" if clients else ""),
        expect_unavailable=expected_unavailable,
        direct=direct,
        rounds=round_count,
        started_at=now(),
        versions=versions_of(ClusterSpec().kafka_version),
        commit=commit(),
        machine=machine.describe(),
        external=external,
        clients=clients,
        items=tuple(replace(item, round=number) for number in range(1, round_count + 1) for item in items),
    )


def resume(name: str) -> CatalogueRun:
    """Returns the catalogue run called `name`, ready to be continued. Writes no file.

    An item is one entry in one round. These items run again:

    * An item whose run ended without a verdict. This run is removed from the item.
    * An unavailable item, if this host now has all that the entry needs.

    Raises BadInput if there is no such catalogue run. Also raises BadInput if the commit, the versions or the host have
    changed since the catalogue run began, because a catalogue run must not mix verdicts of different software or hosts.
    Raises OtherCluster if its cluster is another one now, and Unreachable, and BadInput if the operator's commands are
    other ones.
    """
    catalogue = catalogue_runs.read(name)
    circumstances = (versions_of(ClusterSpec().kafka_version), commit(), machine.describe())
    if circumstances != (catalogue.versions, catalogue.commit, catalogue.machine):
        raise BadInput(
            f"catalogue run is {name!r}; allowed: one that this commit began, with these versions, on this host; it "
            f"was begun by {catalogue.commit} on {catalogue.machine}. Begin another: its verdicts would stand for "
            "what it did not run on"
        )
    _require_same_cluster(catalogue)
    items = [_reopened(item, catalogue) for item in catalogue.items]
    return replace(catalogue, items=tuple(items), ended_at="")


def _require_same_cluster(catalogue: CatalogueRun) -> None:
    runs = [attempt.run for item in catalogue.items for attempt in item.attempts if attempt.verdict is not None]
    if catalogue.external is None or not runs:
        return
    before = RunDirectory(folders.runs_dir() / runs[0]).read_scenario().cluster.external
    assert before is not None, "every run of this catalogue run names the cluster"
    _ = SharedCluster(catalogue.external, before.cluster_id, {}).connection
    own = external_runs.commands_of(catalogue.external)
    if (own and own.described) != before.commands:
        raise BadInput(
            f"{catalogue.external.commands}: the commands of the operator are others than when this catalogue run "
            "began; begin another, because its verdicts would stand for what they did not do"
        )


def _selection_text(names: Sequence[str], tag: str) -> str:
    parts = [f"the tag {tag}"] if tag else []
    return " and ".join([*parts, *([", ".join(names)] if names else [])]) or "everything"


def _item(entry: Entry, expected: Sequence[str], external: ClusterAccess | None, clients: str) -> Item:
    """Returns the item for `entry` in the first round. The item has no runs yet.

    The item says what this host or the cluster `external` lacks to run the entry, and whether the user expected this.
    `expected` has the words that say what the user expects this host to be unable to run (see `selection.expects`).
    What no cluster allows that somebody else runs is always expected there, and so is what `clients` cannot do.
    """
    all_unavailable = _all_lacks(entry, external, clients)
    is_expected = selection.expects(expected, entry, all_unavailable) or bool(
        {ELSEWHERE, OTHER_CLIENTS} & {*all_unavailable}
    )
    return Item(
        name=entry.name,
        title=entry.title,
        promise=entry.promise,
        kind=selection.KINDS[entry.name],
        tags=tuple(entry.tags),
        fault=entry.fault.name,
        unavailable=_unavailable_text(all_unavailable),
        expected_unavailable=not any(unavailable.failed for unavailable in all_unavailable.values()) and is_expected,
    )


def _reopened(item: Item, catalogue: CatalogueRun) -> Item:
    """Returns `item` without its runs that ended without a verdict. Checks again whether this host can run the item."""
    entry = selection.entries([item.name])[0]
    with_verdict = tuple(attempt for attempt in item.attempts if attempt.verdict is not None)
    again = _item(entry, catalogue.expect_unavailable, catalogue.external, catalogue.clients)
    return replace(again, round=item.round, attempts=with_verdict)


def unavailable(entry: Entry, external: ClusterAccess | None = None, clients: str = "") -> str:
    """Returns what this host lacks to run the entry, or the cluster `external`, with the remedy, and what `clients`
    cannot do. Returns an empty text if nothing is lacking.

    The function tests whether the host has a capability, such as `power`, by using it. It tests each capability only
    once per process.
    """
    return _unavailable_text(_all_lacks(entry, external, clients))


def _all_lacks(entry: Entry, external: ClusterAccess | None, clients: str) -> dict[str, Unavailability]:
    lacks = _lacks(entry) if external is None else _lacks_there(entry, external)
    return lacks | _lacks_clients(entry, clients)


def _lacks_clients(entry: Entry, clients: str) -> dict[str, Unavailability]:
    """Returns under OTHER_CLIENTS why the entry cannot be run with `clients`. Nothing if it can."""
    if not clients:
        return {}
    try:
        check_scenario(build(entry, "planned", backend=default_name(), clients=parse(clients, "clients")))
    except BadInput as refused:
        return {OTHER_CLIENTS: Unavailability("; ".join(refused.messages))}
    return {}


def _lacks_there(entry: Entry, external: ClusterAccess) -> dict[str, Unavailability]:
    """Returns why the cluster that somebody else runs cannot run the entry: under ELSEWHERE what no such cluster
    allows, under `the cluster` what this one lacks. Nothing is left there."""
    scenario = build(entry, "planned", backend=default_name())
    try:
        external_runs.require_possible(scenario, external)
        _require_convictable(scenario)
    except BadInput as refused:
        return {ELSEWHERE: Unavailability("; ".join(refused.messages))}
    _, plan = external_runs.check(external, scenario)
    try:
        external_runs.require_fit(plan)
    except (external_runs.ClusterUnfit, external_runs.ClusterUnknown) as unfit:
        return {"the cluster": Unavailability(" ".join(str(unfit).splitlines()))}
    return {}


def _lacks(entry: Entry) -> dict[str, Unavailability]:
    """Maps each capability that the entry needs and this host lacks to the reason why the host lacks it.

    If the backend of the entry cannot run on this host, the only key is `backend <name>`. The same holds if the backend
    cannot give the entry the cluster that it needs.
    """
    spec = cluster_of(entry, backend=default_name())
    backend = backend_of(spec)
    if unavailable := backend.unavailable() or backend.unsupported(spec, entry.fault):
        return {f"backend {spec.backend}": unavailable}
    return {
        need: unavailable
        for need in capabilities_of(entry.fault)
        if (unavailable := backend.unavailable(need)) is not None
    }


def _require_convictable(scenario: Scenario) -> None:
    """Raises BadInput if an arm must show what a forgetful coordinator would cause, too, on a cluster that somebody
    else runs: its verdict there is INCONCLUSIVE (`verdict.external`)."""
    for arm in scenario.loaded:
        unshown = UNSHOWN.get(arm.application.discipline, ()) if arm.application else ()
        shown = {bound.count for bound in arm.expectation.bounds if bound.op != "<=" and bound.value}
        if doubtful := [anomaly.value for anomaly in unshown if anomaly.value in shown]:
            raise BadInput(
                f"{arm.name} must be {', '.join(doubtful)}, and nobody watches the coordinators there: one that "
                "forgets has the same effect"
            )


def _unavailable_text(all_unavailable: Mapping[str, Unavailability]) -> str:
    return "; ".join(
        f"{need}: {'the trial went wrong: ' if unavailable.failed else ''}{unavailable.why}"
        for need, unavailable in all_unavailable.items()
    )
