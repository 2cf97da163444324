"""The form of a run in the Airflow UI: its fields, their limits and their words, all taken from the library."""

from __future__ import annotations

import re
from typing import Any, get_args

import msgspec
from airflow.sdk import Param
from msgspec import Struct

from delivery_verifier import catalogue
from delivery_verifier.catalogue_run import selection
from delivery_verifier.host.java.jars import kafka_versions
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.inputs import limits
from delivery_verifier.model.scenario import Arm, Claim, ClusterSpec, Load, OwnPacing, Profile, Scenario
from delivery_verifier.model.steps import STEPS
from delivery_verifier.planning.own_settings import profiles
from delivery_verifier.planning.params import FEWEST_TO_ABORT

CLAIMS: dict[str, str] = {
    "contract": "contract: exactly what the settings promise",
    "at_most_once": "at_most_once: no record twice",
    "at_least_once": "at_least_once: no reported record lost",
    "exactly_once": "exactly_once: neither lost nor twice",
    "ordered": "ordered: per producer and partition, in the order sent",
}
PACINGS: dict[str, str] = {
    "spread": "spread: the floor of records over the planned duration",
    "flat_out": "flat_out: as fast as the client can",
}
DEFAULTS: dict[str, Any] = {"profile": "safe", "fault": "kill_leader", "claim": "contract", "records": 20_000}


_EXPECTABLE = "|".join(map(re.escape, selection.EXPECTABLE))


def params() -> dict[str, Param]:
    """The fields in their order. Four are in no section: the UI folds sections, and opens one at a time."""
    return _question() | _catalogue() | _own_settings() | _load() | _topic() | _repetition() | _self_test()


def catalogue_params() -> dict[str, Param]:
    """The fields of a catalogue run. All have defaults that hold for a scheduled one: everything."""
    return {
        "tag": Param(
            "",
            type="string",
            enum=["", *selection.tags()],
            title="Tag",
            values_display={"": "all scenarios"},
            description="Only scenarios with this tag.",
        ),
        "names": Param(
            [],
            type="array",
            examples=list(catalogue.ENTRIES),
            title="Scenarios",
            items={"type": "string"},
            values_display={name: f"{name}: {entry.title}" for name, entry in catalogue.ENTRIES.items()},
            description="Only these scenarios; none chosen: all.",
        ),
        "expect_unavailable": Param(
            ", ".join(selection.expectable(selection.expected_here())),
            type="string",
            title="Expected to be unavailable",
            pattern=f"^ *(({_EXPECTABLE})( *, *({_EXPECTABLE}))*)? *$",
            description="Equipment, kinds or names, separated by commas, of scenarios that this host may be unable to "
            "run, e.g. power,network. One that is unavailable and not named here turns the run red.",
        ),
    }


def _question() -> dict[str, Param]:
    return {
        "profile": _choice(
            "Delivery profile",
            _summaries(profiles.known()),
            DEFAULTS["profile"],
            "The producer and topic settings to be verified.",
        ),
        "fault": _choice(
            "Fault",
            _summaries(catalogue.FAULTS),
            DEFAULTS["fault"],
            "What is done to the brokers while the load flows.",
        ),
        "claim": _choice(
            "Claim",
            _labels(Claim, CLAIMS),
            DEFAULTS["claim"],
            "What must hold: what the settings promise, or a stronger guarantee that the run then tries to refute.",
        ),
        "records": _number(
            "Records",
            Arm,
            "records",
            DEFAULTS["records"],
            "At least so many records from the verified producers together; the load outlasts the fault.",
        ),
    }


def _catalogue() -> dict[str, Param]:
    return {
        "scenario": Param(
            None,
            type=["string", "null"],
            enum=[None, *catalogue.SCENARIOS],
            title="Scenario of the catalogue",
            description="In place of everything above: a ready-made scenario with its arms, fault and expectations. "
            "Only seed and Kafka version are taken from below.",
            values_display={name: f"{name}: {entry.title}" for name, entry in catalogue.SCENARIOS.items()},
            section="Catalogue",
        ),
    }


def _own_settings() -> dict[str, Param]:
    section = "Own settings"
    warning = "Airflow keeps what is entered here: never paste a password; how to reach a cluster is not used anyway."
    return {
        "producer_overrides": _text(
            "Producer overrides",
            f"One name=value to a line, in place of the profile's, e.g. linger.ms=100. {warning}",
            section,
        ),
        "topic_overrides": _text(
            "Topic overrides",
            "One name=value to a line, in place of the profile's, e.g. unclean.leader.election.enable=true.",
            section,
        ),
    }


def _load() -> dict[str, Param]:
    section = "Load"
    return {
        "rate": _number("Rate (records/s)", Load, "rate", None, "Empty: paced as chosen below.", section=section),
        "pacing": _choice(
            "Pacing",
            _labels(OwnPacing, PACINGS),
            _default(Load, "pacing"),
            "How the load is paced without a rate.",
            section=section,
        ),
        "producers": _number(
            "Producers", Arm, "producers", _default(Arm, "producers"), "Producer processes.", section=section
        ),
        "payload_bytes": _number(
            "Record size (bytes)",
            Load,
            "payload_bytes",
            _default(Load, "payload_bytes"),
            "Size of a record's value, header and checksum included.",
            section=section,
        ),
        "transaction_records": _number(
            "Records per transaction",
            Load,
            "transaction_records",
            _default(Load, "transaction_records"),
            "Of profiles with a transactional.id; in whole blocks, and no more than a second sends.",
            section=section,
        ),
        "abort_every": Param(
            _default(Load, "abort_every"),
            type="integer",
            minimum=FEWEST_TO_ABORT,
            maximum=_limits(Load, "abort_every")["maximum"],
            title="Abort every",
            description="Of profiles with a transactional.id: the second transaction, and every so many from it on, "
            "is aborted on purpose; whoever reads committed must not see it.",
            section=section,
        ),
    }


def _topic() -> dict[str, Param]:
    section = "Topic and cluster"
    replicas = _default(Load, "replication_factor")
    return {
        "partitions": _number(
            "Partitions", Load, "partitions", _default(Load, "partitions"), "Partitions per topic.", section=section
        ),
        "replication_factor": _number(
            "Replication factor", Load, "replication_factor", replicas, "Replicas per partition.", section=section
        ),
        "min_insync_replicas": Param(
            None,
            type=["integer", "null"],
            minimum=1,
            maximum=_limits(Load, "replication_factor")["maximum"],
            title="min.insync.replicas",
            description="Empty: as the profile says.",
            section=section,
        ),
        "kafka_version": _choice(
            "Kafka version",
            {version: version for version in kafka_versions()},
            _default(ClusterSpec, "kafka_version"),
            "The version of the brokers; its jars are fetched once.",
            section=section,
        ),
    }


def _repetition() -> dict[str, Param]:
    section = "Repetition"
    return {
        "cycles": _number(
            "Cycles",
            FaultPlan,
            "cycles",
            _default(FaultPlan, "cycles"),
            "How often the fault is repeated in one run.",
            section=section,
        ),
        "seed": _number(
            "Seed",
            Scenario,
            "seed",
            _default(Scenario, "seed"),
            "Two runs with one seed choose the same targets.",
            section=section,
        ),
    }


def _self_test() -> dict[str, Param]:
    labels: dict[str, str] = {"None": "no step", **{step: step for step in STEPS}}
    return {
        "fail_step": Param(
            None,
            type=["string", "null"],
            enum=[None, *STEPS],
            values_display=labels,
            title="Fail this step",
            description="Makes one step fail at its entry. Whichever it is, the run must turn red, without a HELD.",
            section="Testing the verifier",
        )
    }


def _choice(title: str, labels: dict[str, str], default: str, description: str, **more: Any) -> Param:
    return Param(
        default, type="string", enum=list(labels), values_display=labels, title=title, description=description, **more
    )


def _text(title: str, description: str, section: str) -> Param:
    return Param(
        None, type=["string", "null"], format="multiline", title=title, description=description, section=section
    )


def _number(title: str, owner: type[Struct], field: str, default: int | None, description: str, **more: Any) -> Param:
    kind = "integer" if default is not None else ["integer", "null"]
    return Param(default, type=kind, title=title, description=description, **_limits(owner, field), **more)


def _limits(owner: type[Struct], field: str) -> dict[str, Any]:
    """`minimum` and `maximum` of an integer field, as the scenario declares them."""
    minimum, maximum = limits(owner, field)
    return {"minimum": minimum} | ({"maximum": maximum} if maximum is not None else {})


def _default(owner: type[Struct], field: str) -> Any:
    return next(f.default for f in msgspec.structs.fields(owner) if f.name == field)


def _summaries(named: dict[str, Profile] | dict[str, FaultPlan]) -> dict[str, str]:
    return {name: f"{name}: {one.summary}" for name, one in named.items()}


def _labels(allowed: Any, labels: dict[str, str]) -> dict[str, str]:
    """Labels for all values a Literal allows, in its order. Raises KeyError where one has no label."""
    return {value: labels[value] for value in get_args(allowed)}
