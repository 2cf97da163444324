"""A run on a cluster that somebody else runs: the check of that cluster, and the scenario as the cluster lets it be."""

from __future__ import annotations

import logging
import secrets
import shlex
import string
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from delivery_verifier.cluster import workspaces
from delivery_verifier.cluster.check import cluster_check, facts
from delivery_verifier.cluster.check.cluster_check import Checked
from delivery_verifier.cluster.check.facts import Broker
from delivery_verifier.cluster.check.rights import PREFIX
from delivery_verifier.cluster.external import backend, commands
from delivery_verifier.cluster.external.cluster import read
from delivery_verifier.cluster.external.commands import Commands
from delivery_verifier.cluster.security import spark_options
from delivery_verifier.cluster.security.spark_options import Location
from delivery_verifier.model.data import Setting
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.external_cluster import SESSION, ClusterAccess, ExternalCluster
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.operator_commands import OperatorCommands
from delivery_verifier.model.scenario import Arm, Load, Scenario
from delivery_verifier.planning import cluster_needs, cluster_plan
from delivery_verifier.planning.cluster_plan import ClusterPlan
from delivery_verifier.planning.request import FIELDS

_log = logging.getLogger(__name__)
BACKEND = "external"
NOT_KNOWN = "not known"
_SHORTEST_SESSION_MS, _LONGEST_SESSION_MS = 300, 60_000
_TOKEN = string.ascii_lowercase + string.digits
_ID = "transactional.id"


class ClusterUnknown(VerifierError, RuntimeError):
    """A cluster that somebody else runs does not say whether it has what the run needs."""

    exit_code = cluster_plan.UNKNOWN


class ClusterUnfit(VerifierError, RuntimeError):
    """A cluster that somebody else runs lacks what the run needs."""

    exit_code = cluster_plan.LACKING


def require_fit(plan: ClusterPlan) -> None:
    """Raises ClusterUnfit or ClusterUnknown, with the lines of `kdv plan` that say why, if the cluster is not fit for
    the run. The exit code is that of `kdv plan`."""
    if plan.fit:
        return
    marked = [line for line in plan.lines if line.mark in ("missing", "refused", "not known")]
    said = [f"{each.mark}: {each.text}" + (f"; remedy: {each.remedy}" if each.remedy else "") for each in marked]
    error = ClusterUnknown if plan.exit_code == cluster_plan.UNKNOWN else ClusterUnfit
    raise error(f"the cluster {plan.cluster_id} is not fit for this run\n" + "\n".join(said))


def require_possible(scenario: Scenario, access: ClusterAccess) -> None:
    """Raises BadInput, without asking any cluster, if `scenario` is none that may run on one that somebody else
    runs: the fault or the load is refused there, an application cannot get the connection, or the operator's commands
    cannot be used."""
    _require_applications(scenario)
    needed = cluster_needs.needs(scenario, commands_of(access))
    if refused := [line for line in cluster_plan.of_run(needed) if line.mark == "refused"]:
        raise BadInput(*(f"{line.topic}: {line.text}; allowed there: {line.remedy}" for line in refused))


def refuse_observing(scenario: Scenario) -> None:
    """Raises BadInput if somebody else is to break the brokers of `scenario`, and the run has a cluster of its own."""
    if scenario.fault.by_others:
        raise BadInput(
            f"fault is {scenario.fault.name!r}, which watches while somebody else breaks brokers of their own cluster, "
            "and this run would start one that nobody else knows; allowed: with --cluster, --command-config or "
            "--bootstrap-server (in the form: the field cluster); or another fault, e.g. kill_leader"
        )


def check(
    access: ClusterAccess, scenario: Scenario, spark: Location = spark_options.HERE
) -> tuple[Checked, ClusterPlan]:
    """Checks the cluster that `access` names for `scenario`, and leaves nothing there. `spark`: where Spark will run.

    Raises BadInput and UnsupportedSecurity if the connection cannot be used, SecretsOutOfReach if Spark could not read
    its secrets, and Unreachable if no server answers.
    """
    own = commands_of(access)
    needed, connection = cluster_needs.needs(scenario, own), read(access)
    spark_options.require_within_reach(connection.security, spark, workspaces.folder())
    checked = cluster_check.check(
        connection,
        (*needed.rights, *needed.wishes),
        lambda brokers: cluster_needs.sample_topics(scenario, brokers),
    )
    return checked, cluster_plan.judge(scenario, checked, own)


def commands_of(access: ClusterAccess) -> Commands | None:
    """Returns the operator's commands that `access` names; None if it names none. Raises BadInput if they cannot be
    used."""
    return None if access.commands is None else commands.read(access.commands)


def planned(access: ClusterAccess, scenario: Scenario, spark: Location = spark_options.HERE) -> Scenario:
    """Returns `scenario` on the cluster that `access` names, with names of its own. Logs what was found there.

    Raises ClusterUnfit if the cluster lacks something, ClusterUnknown if it does not say it, BadInput if an application
    of the run cannot get the connection, ClusterTaken if another run is there, and what `check` raises.
    """
    _require_applications(scenario)
    checked, plan = check(access, scenario, spark)
    require_fit(plan)
    _log.info("%s", cluster_plan.text(plan))
    backend.BACKEND.require_alone(access, checked.cluster_id)
    return _named(on_cluster(access, scenario, checked), _token())


def on_cluster(access: ClusterAccess, scenario: Scenario, checked: Checked) -> Scenario:
    """Returns `scenario` with what `checked` found. What is not known has the weaker value."""
    brokers = placed(scenario, [broker for broker in checked.brokers if broker.number in checked.software])
    own = commands_of(access)
    repeated = access if own is None else replace(access, commands=own.described.reference)
    external = ExternalCluster(
        access=access,
        cluster_id=checked.cluster_id,
        brokers=brokers,
        assumed=cluster_plan.assumptions_from(checked),
        settings=None if checked.settings is None else dict(checked.settings),
        commands=None if own is None else own.described,
    )
    scenario = cluster_plan.observed(scenario, checked)
    if own is not None:
        scenario = replace(scenario, load=_patient(scenario, own.operator))
    release = _release(checked)
    cluster = replace(
        scenario.cluster,
        backend=BACKEND,
        kafka_version=release,
        brokers=len(brokers),
        session_timeout_ms=_session_ms(checked.settings or {}),
        external=external,
        capabilities=(),  # what the plan does to brokers, commands order
    )
    options = (f"{name} {shlex.quote(value)}" for name, value in repeated.options())
    is_direct = "--direct" in scenario.command or not access.unnamed
    command = " ".join([scenario.command, *([] if is_direct else ["--direct"]), *options])
    versions = {**scenario.versions, "kafka": release}
    return replace(scenario, cluster=cluster, versions=versions, command=command)


def _patient(scenario: Scenario, operator: OperatorCommands) -> Load:
    """Returns the load with a deadline that leaves time for each command of the plan, for its effect, and for the
    cluster to be whole again."""
    own = [operator.actions[step.action] for step in scenario.fault.steps if step.action in operator.actions]
    of_commands = sum(each.deadline_s + each.by_itself_s + operator.effect_s + operator.whole_s for each in own)
    seconds = scenario.load.deadline_s + scenario.fault.cycles * of_commands + 2 * operator.whole_s
    return replace(scenario.load, deadline_s=min(float(FIELDS["deadline_s"].meta.le or 0), seconds))


def placed(scenario: Scenario, brokers: Sequence[Broker]) -> tuple[int, ...]:
    """Returns the brokers that hold replicas of the run, in the order in which replicas are placed. Neighbours are in
    different racks where that is possible.

    They are as many as there are partitions or replicas, whichever is more. A run with transactions gets all brokers,
    because its coordinators may be anywhere.
    """
    racks = dict[str | None, list[int]]()
    for broker in sorted(brokers, key=lambda each: each.number):
        racks.setdefault(broker.rack, []).append(broker.number)
    rounds = max(map(len, racks.values()), default=0)
    order = [rack[number] for number in range(rounds) for rack in racks.values() if number < len(rack)]
    count = len(order) if scenario.transactional else max(scenario.load.replication_factor, scenario.load.partitions)
    return tuple(order[:count])


def _release(checked: Checked) -> str:
    """Returns the oldest release that a broker names. Not known: a broker names none of those that are known here."""
    known = list(facts.RELEASES.values())
    named = {software.release for software in checked.software.values()}
    return NOT_KNOWN if checked.unreached or not named <= {*known} else min(named, key=known.index)


def _session_ms(settings: Mapping[str, str]) -> int:
    """Returns the brokers' session timeout, or the shortest one if it is not known: then no silence counts as brief."""
    text = settings.get(SESSION, "")
    return min(max(int(text), _SHORTEST_SESSION_MS), _LONGEST_SESSION_MS) if text.isdecimal() else _SHORTEST_SESSION_MS


def _token() -> str:
    """Returns a token that nobody can guess. A run on its own cluster derives it from its name, and runs of two homes
    may have the same name."""
    return "".join(secrets.choice(_TOKEN) for _ in range(8))


def _named(scenario: Scenario, token: str) -> Scenario:
    """Returns `scenario` with `token` in the names of its topics and in its transactional.ids. Groups have it from the
    scenario."""
    old = f"{PREFIX}{scenario.run_token}-"
    arms = tuple(
        replace(_identified(arm, token), topic_name=f"{PREFIX}{token}-{arm.topic_name.removeprefix(old)}")
        for arm in scenario.arms
    )
    return replace(scenario, run_token=token, arms=arms)


def _identified(arm: Arm, token: str) -> Arm:
    profile, application = arm.profile, arm.application
    if profile.producer.get(_ID):
        profile = replace(profile, producer=_with_token(profile.producer, token))
    if application is not None and application.producer.get(_ID):
        application = replace(application, producer=_with_token(application.producer, token))
    return replace(arm, profile=profile, application=application)


def _with_token(producer: Mapping[str, Setting], token: str) -> dict[str, Setting]:
    """Returns `producer` with `token` behind its transactional.id, which keeps its own beginning: rights name that."""
    return {**producer, _ID: f"{producer[_ID]}-{token}"}


def _require_applications(scenario: Scenario) -> None:
    own = [arm.name for arm in scenario.loaded if arm.application and arm.application.discipline == "own"]
    if own:
        raise BadInput(
            f"application of {', '.join(own)} is a program of your own, which gets only the addresses of the brokers; "
            "allowed on a cluster that somebody else runs: the applications of `kdv list applications`"
        )
