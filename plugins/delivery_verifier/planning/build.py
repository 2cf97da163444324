"""Builds a scenario from the fields of a run: profile, fault plan, load and claim."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from delivery_verifier import catalogue
from delivery_verifier.cluster.backends import default_name
from delivery_verifier.model import client
from delivery_verifier.model.external_cluster import RETURN_S
from delivery_verifier.model.fault_plan import FaultPlan, capabilities_of
from delivery_verifier.model.inputs import BadInput, ValidationErrors
from delivery_verifier.model.scenario import ClusterSpec, Load, Scenario
from delivery_verifier.planning import subject, user_applications
from delivery_verifier.planning.consistency import check_request, check_scenario
from delivery_verifier.planning.provenance import commit, versions_of
from delivery_verifier.planning.repetition import repeating_command
from delivery_verifier.planning.request import FIELDS, Request

QUIET_S = 4.0
"""By default, a load lasts this number of seconds longer than its fault plan, so that load comes before and after the
fault."""
SLOWEST_S, SLOWEST_BYTES = 1e-4, 10e6
"""Two numbers from which the default deadline of a load follows. The deadline allows a time for each of the subject's
records: SLOWEST_S seconds, or the time that the record takes at SLOWEST_BYTES bytes per second, whichever is longer.
Even a busy host is faster."""


def scenario_from_params(params: Mapping[str, Any], name: str) -> Scenario:
    """Returns the scenario for `params`, the fields of the form or of the command line.

    A missing field takes its default. `name` is the run id. Raises BadInput for values that are not allowed. The
    message names every refused field, every refused override, and the fields that do not fit together. If there is
    none, it names the parts of the scenario that do not fit together.
    """
    errors = ValidationErrors()
    values = check_request(params, errors)
    errors.require_none()
    try:
        scenario = (_catalogue_scenario if values.get("scenario") else _ad_hoc_scenario)(values, name)
        check_scenario(scenario)
        return scenario
    except BadInput:
        raise
    except (ValueError, msgspec.ValidationError) as error:
        raise BadInput(str(error)) from None


def _ad_hoc_scenario(values: Mapping[str, Any], name: str) -> Scenario:
    """Returns the scenario that the fields describe, each of which is allowed by itself. `name` is the run id.

    Raises BadInput, ValueError or msgspec.ValidationError if the fields do not fit together.
    """
    request = Request(**values)
    chosen = subject.profile(request)
    fault = _fault(request)
    load = _load(request, fault)
    if load.replication_factor == 1:
        fault = catalogue.for_one_replica(fault)
    return catalogue.scenario(
        name,
        profile=subject.adjusted(chosen, request),
        fault=fault,
        claim=request.claim,
        load=load,
        records=request.records,
        producers=request.producers,
        application=user_applications.known()[request.application] if request.application else None,
        clients=client.parse(request.clients, "clients"),
        cluster=ClusterSpec(
            backend=default_name(),
            kafka_version=request.kafka_version,
            brokers=3,
            capabilities=capabilities_of(fault),
        ),
        seed=request.seed,
        # by default a hundredth of the records, but at most 100
        min_exposed=min(100, request.records // 100) if request.min_exposed is None else request.min_exposed,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions_of(request.kafka_version),
        commit=commit(),
        command=repeating_command(values, chosen),
        fail_step=request.fail_step,
    )


def _catalogue_scenario(values: Mapping[str, Any], name: str) -> Scenario:
    """Returns the scenario of the catalogue that the field `scenario` names. `name` is the run id. Ignores the fields
    that the scenario settles, because a form always sends all of its fields."""
    counting = {key: value for key, value in values.items() if FIELDS[key].words.beside_a_scenario == "counts"}
    request = Request(**counting)
    clients = client.parse(request.clients, "clients")
    if values["scenario"] in catalogue.PRICES and len(clients) > 1:
        raise BadInput(
            f"clients is {request.clients!r}, and {values['scenario']} measures one arm alone, because arms slow each "
            "other down; allowed: one client"
        )
    return catalogue.build(
        catalogue.SCENARIOS[values["scenario"]],
        name,
        seed=request.seed,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions_of(request.kafka_version),
        commit=commit(),
        command=repeating_command(counting, catalogue.PROFILES["safe"]),
        fail_step=request.fail_step,
        kafka_version=request.kafka_version,
        backend=default_name(),
        clients=clients,
    )


def _fault(request: Request) -> FaultPlan:
    """Returns the fault plan that the fields `fault`, `fault_s` and `cycles` describe."""
    fault = catalogue.FAULTS[request.fault]
    if request.fault_s is not None:
        fault = catalogue.lasting(fault, request.fault_s)
    return msgspec.structs.replace(fault, cycles=request.cycles)


def _load(request: Request, fault: FaultPlan) -> Load:
    """Returns the load. A field of Load that the request has under the same name has the request's value."""
    duration_s = request.duration_s or fault.duration_s * fault.cycles + QUIET_S
    work_s = request.records * max(SLOWEST_S, request.payload_bytes / SLOWEST_BYTES)
    longest_s = float(FIELDS["deadline_s"].meta.le or 0)
    return_s = RETURN_S if fault.by_others else 0
    deadline_s = request.deadline_s or min(longest_s, 180 + return_s + 5 * duration_s + work_s)
    asked = {name: getattr(request, name) for name in Load.__struct_fields__ if name in FIELDS}
    return msgspec.convert({**asked, "duration_s": duration_s, "deadline_s": deadline_s}, Load)
