"""Checks of a whole scenario, before anything starts. Even if each field is valid by itself, a scenario is refused if
its fields do not fit together."""

from __future__ import annotations

import msgspec

from delivery_verifier.model.act import errors_in_options
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.application import Application
from delivery_verifier.model.application_checks import check_application, check_freezes, check_late_ends, check_power
from delivery_verifier.model.client import VersionedClient, require_possible
from delivery_verifier.model.fault_actions import ACTS, TERMINATE
from delivery_verifier.model.fault_plan import TARGETS, capabilities_of
from delivery_verifier.model.inputs import BadInput, ValidationErrors
from delivery_verifier.model.partition_growth import check_growth
from delivery_verifier.model.scenario import Arm, Scenario


def loads(text: bytes) -> Scenario:
    """Reads the content of scenario.json strictly. Raises BadInput if a field is wrong. The message names the field,
    and says what is allowed."""
    try:
        scenario = msgspec.json.decode(text, type=Scenario)
    except msgspec.MsgspecError as error:
        raise BadInput(
            f"scenario.json is not as `plan` wrote it: {error}; take the original, or run it again"
        ) from None
    check(scenario)
    return scenario


def check(scenario: Scenario) -> None:
    """Raises BadInput if fields of `scenario` do not fit together. The message names every contradiction.

    Checks the roles, names and ordinals of the arms, the number of replicas, min.insync.replicas, and the names in the
    expectations. Also checks whether the fault plan fits the cluster and the load.
    """
    names = scenario.arm_names
    if len(set(names)) != len(names) or len({arm.ordinal for arm in scenario.arms}) != len(names):
        raise BadInput(f"arms: names and ordinals must be unique, got {names}")
    if sum(arm.role == "canary" for arm in scenario.arms) != 1:
        raise BadInput("arms: exactly one must have the role canary")
    if not scenario.subjects:
        raise BadInput("arms: at least one must have the role subject")
    if scenario.load.replication_factor > scenario.cluster.brokers:
        raise BadInput(
            f"load.replication_factor is {scenario.load.replication_factor}, but cluster.brokers is "
            f"{scenario.cluster.brokers}: use at most as many replicas as brokers"
        )
    errors = ValidationErrors()
    for check_part in (_check_plan, _check_transactions, _check_applications, check_growth):
        with errors:
            check_part(scenario)
    for arm in scenario.arms:
        with errors:
            _check_isr(arm, scenario.load.replication_factor)
        with errors:
            _check_application(arm, scenario)
        with errors:
            _check_bounds(arm)
        with errors:
            _check_sigterm(arm, scenario)
        with errors:
            _check_client(arm)
    errors.require_none()


def _check_application(arm: Arm, scenario: Scenario) -> None:
    """Raises BadInput if the arm has an application that does not fit the scenario."""
    if arm.application:
        check_application(arm.name, arm.application)
        check_power(scenario)
        check_late_ends(scenario)


def _check_client(arm: Arm) -> None:
    """Raises BadInput if no run can have the client of the arm, or if it does not fit the arm."""
    where, application = f"arms.{arm.name}.client", arm.application
    require_possible(arm.client, arm.client_version, where)
    if application is not None:
        _check_same_client(where, arm, application)
    if arm.client != "librdkafka" and arm.role == "canary":
        raise BadInput(f"{where} is {arm.client}; allowed: librdkafka, which sends the canary's records")


def _check_same_client(where: str, arm: Arm, application: Application) -> None:
    """Raises BadInput unless the members of the application have the client of the arm. Their librdkafka may be of
    another version than the installed one of the producers: so are those of scenarios about consumers alone."""
    members = f"the members of {application.name}"
    if application.discipline == "own":
        if arm.client != "librdkafka" or application.client != "librdkafka":
            raise BadInput(
                f"{where} is {arm.client}, and {members} choose their client themselves: a difference would not be "
                "that of one client; allowed: librdkafka, or an arm without a user application"
            )
    elif application.versioned_client != arm.versioned_client and not (
        arm.versioned_client == VersionedClient() and application.client == "librdkafka"
    ):
        raise BadInput(
            f"{where} is {arm.versioned_client.text}, and {members} use {application.versioned_client.text}: a "
            "difference would not be that of one client; allowed: the same client and version for both"
        )


def _check_bounds(arm: Arm) -> None:
    """Raises BadInput if the expectation of the arm counts something unknown, or does not say what chance decides."""
    if arm.expectation.by_chance and not arm.expectation.bounds:
        raise BadInput(
            f"arms.{arm.name}.expectation.by_chance is true, and there are no bounds that chance may miss; give bounds"
        )
    for bound in arm.expectation.bounds:
        if bound.count.upper() not in Anomaly.__members__ and not bound.count.islower():
            raise BadInput(f"arms.{arm.name}.expectation: {bound.count!r} is no anomaly and no counts column")


def _check_sigterm(arm: Arm, scenario: Scenario) -> None:
    """Raises BadInput unless the arm says how its producers end on SIGTERM exactly where the fault plan sends it."""
    where = f"arms.{arm.name}.on_sigterm is {arm.on_sigterm!r}"
    if arm.role == "canary" or not any(step.action == TERMINATE for step in scenario.fault.steps):
        if arm.on_sigterm is not None:
            raise BadInput(f"{where}, and nothing sends SIGTERM to its producers; allowed: none; leave it out")
        return
    if arm.on_sigterm is None:
        raise BadInput(f"{where}, and the fault plan has the action {TERMINATE}; allowed: flush, exit; give one")
    if arm.transactional_id:
        raise BadInput(
            f"{where}, and the arm writes transactions; allowed: arms without transactional.id with the action "
            f"{TERMINATE}; use the action kill_producer"
        )


def _check_plan(scenario: Scenario) -> None:
    """Raises BadInput if the fault plan names unknown things, or does not fit the cluster or the load."""
    for number, step in enumerate(scenario.fault.steps):
        where = f"fault.steps[{number}]"
        if step.action not in ACTS:
            raise BadInput(f"{where}.action is {step.action!r}; allowed: {', '.join(ACTS)}")
        if step.target not in ("same", *TARGETS):
            raise BadInput(f"{where}.target is {step.target!r}; allowed: same, {', '.join(TARGETS)}")
        if step.action == "elect_preferred" and scenario.load.replication_factor == 1:
            raise BadInput(
                f"{where} elects another replica, and with replication factor 1 there is none: raise "
                "--replication-factor, or choose another fault"
            )
        for error in errors_in_options(step.action, step.act.options, step.options):
            raise BadInput(f"{where}.options.{error}")
    if scenario.fault.by_others and (len(scenario.fault.steps) > 1 or scenario.fault.cycles > 1):
        raise BadInput(
            f"fault is {scenario.fault.name!r} with cycles {scenario.fault.cycles}, and nobody knows how often "
            "somebody else breaks brokers; allowed: one cycle, and no other step; raise --duration-s to watch longer"
        )
    external = scenario.cluster.external
    ordered = external.commands.actions if external is not None and external.commands is not None else ()
    by_the_run = msgspec.structs.replace(
        scenario.fault, steps=tuple(step for step in scenario.fault.steps if step.action not in ordered)
    )
    if missing := set(capabilities_of(by_the_run)) - set(scenario.cluster.capabilities):
        raise BadInput(
            f"cluster.capabilities lacks {sorted(missing)}, which the fault plan needs: take it from `capabilities_of`"
        )
    if (scenario.load.pacing == "scripted") != any(step.action == "send" for step in scenario.fault.steps):
        raise BadInput("load.pacing is scripted exactly where the fault plan has send steps: change one of them")
    if scenario.load.pacing == "scripted" and not scenario.load.block:
        raise BadInput("load.block must be given where load.pacing is scripted")


def _check_applications(scenario: Scenario) -> None:
    """Raises BadInput if a step of the fault plan is about applications, but no arm has an application."""
    for number, step in enumerate(scenario.fault.steps):
        if not scenario.applied and (step.act.whom == "application" or step.trigger.kind in ("parked", "caught_up")):
            raise BadInput(
                f"fault is {scenario.fault.name!r}, whose fault.steps[{number}] is about applications, and no arm has "
                "one; allowed: such faults with --application NAME. Name an application, or choose another fault"
            )
        if _all_are_own(scenario) and (step.action == "park" or step.trigger.kind == "parked"):
            raise BadInput(
                f"fault.steps[{number}] is about crash points, and the user application of {scenario.applied[0]} has "
                "none: kill it without them"
            )
        ids = [arm.name for arm in scenario.loaded if arm.application and arm.transactional_id]
        if ids and step.trigger.kind == "caught_up":
            raise BadInput(
                f"fault.steps[{number}] waits for caught_up, which arm {ids[0]} never is: no group commits the end "
                "of a topic with transactions"
            )
    _check_crashes(scenario)
    check_freezes(scenario)


def _all_are_own(scenario: Scenario) -> bool:
    """Returns whether at least one arm has an application, and every application is a program of the user's own."""
    return {arm.application.discipline for arm in scenario.loaded if arm.application} == {"own"}


def _check_crashes(scenario: Scenario) -> None:
    """Raises BadInput in two cases:

    * The fault plan kills applications at the crash point `committed`. Members at this point have nothing in progress,
      so the kill can hurt nothing.
    * The fault plan rewinds applications that were killed and not restarted. The rewind would start them, and nobody
      could prove any more that they had been killed.
    """
    point, is_killed = "", False
    for number, step in enumerate(scenario.fault.steps * min(scenario.fault.cycles, 2)):
        where = f"fault.steps[{number % len(scenario.fault.steps)}]"
        if step.action == "park":
            point = str(step.options.get("at"))
        elif step.action == "kill_application":
            if point == "committed":
                raise BadInput(
                    f"{where} kills applications that stand at committed, with nothing in progress: park elsewhere"
                )
            is_killed = True
        elif step.action in ("restart_application", "rewind"):
            if is_killed and step.action == "rewind":
                raise BadInput(f"{where} sets back applications that were killed: restart_application must come before")
            point, is_killed = "", False


def _check_transactions(scenario: Scenario) -> None:
    """Raises BadInput in these cases:

    * An arm writes transactions, and the fault plan has the action `resend` or `stall`. The end of a transaction that
      waits behind a stalled request may reach the coordinator late, and nobody notes it.
    * No arm writes transactions, and the fault plan needs the proof `transactions_open`.
    * The fault plan breaks a rule about the proof `coordinator_moved` (see `_check_coordinator`).
    """
    names = [arm.name for arm in scenario.loaded if arm.transactional_id]
    for number, step in enumerate(scenario.fault.steps):
        if names and step.action in ("resend", "stall"):
            raise BadInput(
                f"arms.{names[0]} has a transactional.id, which does not go with the action {step.action}: leave one "
                "of them out"
            )
        if not names and "transactions_open" in (step.proofs or ()):
            raise BadInput(
                f"fault.steps[{number}] needs the proof transactions_open, and no arm has a transactional.id: leave it "
                "out"
            )
    _check_coordinator(scenario)


def _check_coordinator(scenario: Scenario) -> None:
    """Raises BadInput if a step of the fault plan lacks the proof `coordinator_moved` although the proof is needed, or
    if the proof is impossible.

    These injections need the proof: one with the target `transaction_coordinator`, and the last injection before a step
    with the trigger `coordinator_moved`. The proof is possible only if the scenario has exactly one producer with a
    transactional.id.
    """
    aimed, proven, target = False, False, ""
    for number, step in enumerate(scenario.fault.steps):
        waits_in_vain = step.trigger.kind == "coordinator_moved" and not proven
        proven = "coordinator_moved" in (step.proofs or ()) if step.act.takes_effect else proven
        target = target if step.target == "same" else step.target
        hits_coordinator = target == "transaction_coordinator"
        aimed = aimed or hits_coordinator or proven
        if waits_in_vain or (hits_coordinator and step.act.takes_effect and not proven):
            raise BadInput(
                f"fault.steps[{number}] is about a transaction coordinator: give the injection that hits it, this one "
                "or the last before, the proof coordinator_moved"
            )
    count = len(scenario.transactional_ids)
    if aimed and count != 1:
        raise BadInput(
            f"fault.steps: coordinators are proven for exactly one producer with a transactional.id, got {count}: "
            "have one such arm, with one producer"
        )


def _check_isr(arm: Arm, replicas: int) -> None:
    """Raises BadInput if the arm's min.insync.replicas is no number from 1 to `replicas`.

    With a greater number, brokers would refuse every record that is sent with acks=all.
    """
    text = str(arm.profile.topic.get("min.insync.replicas", 1))
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= replicas):
        lower = "--min-insync-replicas" if arm.role == "subject" else "nothing: the arm is a control, and has it fixed"
        raise BadInput(
            f"min.insync.replicas of arm {arm.name} is {text}; allowed: a whole number from 1 to the replication "
            f"factor, {replicas}; raise --replication-factor, or lower {lower}"
        )
