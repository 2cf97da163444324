"""The form with which a user triggers the DAG verify_delivery in the Airflow UI.

The choices and limits of the fields are not written in this module. The module takes them from the catalogue and from
the classes that make up a scenario, for example `Load`.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from delivery_verifier import catalogue
from delivery_verifier.host import folders
from delivery_verifier.host.java.jars import kafka_versions
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.inputs import limits
from delivery_verifier.model.scenario import Arm, ClusterSpec, Load, OwnPacing, Scenario
from delivery_verifier.model.steps import STEPS
from delivery_verifier.orchestration.tasks import form_fields as fields
from delivery_verifier.orchestration.tasks import form_own_settings as own_settings
from delivery_verifier.planning import own_applications
from delivery_verifier.planning.own_settings import profiles
from delivery_verifier.planning.params import FEWEST_TO_ABORT
from delivery_verifier.run import estimates

PACINGS: dict[str, str] = {
    "spread": "spread: the floor of records over the planned duration",
    "flat_out": "flat_out: as fast as the client can",
}
"""The label of each pacing. The pacing says how fast the producers send if the user enters no rate."""
DEFAULTS: dict[str, Any] = {"profile": "safe", "fault": "kill_leader", "claim": "contract", "records": 20_000}
"""The default values of the form's fields that are in no section, by field name. An application has no default."""


def params() -> dict[str, Param]:
    """Returns the form's fields by name, in the order of the form.

    The UI folds all sections of a form, and opens only one section at a time. The first five fields are in no section,
    so that they are always visible.
    """
    return _question() | _catalogue() | own_settings.params() | _load() | _topic() | _repetition() | _self_test()


def _question() -> dict[str, Param]:
    """Returns the first five fields of the form, by name. They are in no section, so the UI always shows them."""
    return {
        "profile": fields.choice(
            "Delivery profile",
            {**fields.summaries(profiles.known()), profiles.OWN: own_settings.PASTED},
            DEFAULTS["profile"],
            "The producer and topic settings to be verified.",
        ),
        "application": fields.optional_choice(
            "Application",
            fields.summaries(own_applications.known()),
            "no application",
            "A consumer under test that applies the subject's records: what it skips or applies twice is compared with "
            "the log. Empty: only the log is verified. A program of your own has the name that the operator of the "
            "host has given it. A new one appears here after a minute at most. If its group never commits (offsets in "
            "a checkpoint), a killed one may be VIOLATED, and never HELD.",
        ),
        "fault": fields.choice(
            "Fault",
            fields.summaries(catalogue.FAULTS),
            DEFAULTS["fault"],
            "What is done to the brokers while the load flows.",
        ),
        "claim": fields.choice(
            "Claim",
            {claim: f"{claim}: {kind.meaning}" for claim, kind in CLAIMS.items()},
            DEFAULTS["claim"],
            "What must hold: what the settings promise, or a stronger guarantee that the run then tries to refute.",
        ),
        "records": fields.number(
            "Records",
            Arm,
            "records",
            DEFAULTS["records"],
            f"Minimum number of records, {catalogue.FEWEST_RECORDS:,} or more. Sending goes on until the fault is "
            f"over, so usually more are sent. {_estimate()}",
            least=catalogue.FEWEST_RECORDS,
        ),
    }


def _estimate() -> str:
    """Returns a sentence that says how long a run with the default values takes: on this host, estimated from earlier
    runs, or on two cores, if too few runs have finished here.

    The time is rounded to half minutes. Reason: if the text of a field changes, Airflow stores a new version of the
    DAG.
    """
    runs = estimates.finished(folders.stored_runs())
    is_known = len(runs) >= estimates.RUNS_NEEDED
    usual_s = estimates.seconds_of(runs if is_known else (), estimates.BEFORE_LOAD_S | estimates.DEFAULTS_S)
    load_s = catalogue.FAULTS[DEFAULTS["fault"]].duration_s + fields.default(Load, "recovery_s")
    halves = max(1, round((sum(usual_s.values()) + load_s) / 30))
    minutes = "half a minute" if halves == 1 else f"{halves / 2:g} minute{'s'[: halves != 2]}"
    where = "on this host" if is_known else "on two cores"
    return f"With the defaults of this form, a run takes about {minutes} {where}."


def _catalogue() -> dict[str, Param]:
    return {
        "scenario": fields.optional_choice(
            "Scenario of the catalogue",
            {name: f"{name}: {entry.title}" for name, entry in catalogue.SCENARIOS.items()},
            "no scenario: the other fields count",
            "In place of everything above: a ready-made scenario with its arms, fault and expectations. Only seed and "
            "Kafka version are taken from below.",
            section="Catalogue (default: no scenario)",
        ),
    }


def _load() -> dict[str, Param]:
    bytes_, producers = fields.default(Load, "payload_bytes"), fields.default(Arm, "producers")
    section = f"Load (default: {fields.default(Load, 'pacing')}, {producers} producer per arm, {bytes_} bytes)"
    return {
        "rate": fields.number("Rate (records/s)", Load, "rate", None, "Empty: paced as chosen below.", section=section),
        "pacing": fields.choice(
            "Pacing",
            fields.labels(OwnPacing, PACINGS),
            fields.default(Load, "pacing"),
            "How the load is paced without a rate.",
            section=section,
        ),
        "producers": fields.number(
            "Producers", Arm, "producers", fields.default(Arm, "producers"), "Producer processes.", section=section
        ),
        "payload_bytes": fields.number(
            "Record size (bytes)",
            Load,
            "payload_bytes",
            fields.default(Load, "payload_bytes"),
            "Size of a record's value, header and checksum included.",
            section=section,
        ),
        "transaction_records": fields.number(
            "Records per transaction",
            Load,
            "transaction_records",
            fields.default(Load, "transaction_records"),
            "Of profiles with a transactional.id; in whole blocks, and no more than a second sends.",
            section=section,
        ),
        "abort_every": Param(
            fields.default(Load, "abort_every"),
            type="integer",
            **fields.bounds(FEWEST_TO_ABORT, limits(Load, "abort_every")[1]),
            title="Abort every",
            description="Profiles with a transactional.id only. Aborts the second transaction and every Nth from it "
            "on, on purpose; a read_committed consumer must never see them.",
            section=section,
        ),
    }


def _topic() -> dict[str, Param]:
    replicas, version = fields.default(Load, "replication_factor"), fields.default(ClusterSpec, "kafka_version")
    partitions = fields.default(Load, "partitions")
    section = f"Topic and cluster (default: {partitions} partitions, {replicas} replicas, Kafka {version})"
    return {
        "partitions": fields.number(
            "Partitions",
            Load,
            "partitions",
            partitions,
            "Partitions per topic.",
            section=section,
        ),
        "replication_factor": fields.number(
            "Replication factor",
            Load,
            "replication_factor",
            replicas,
            "Replicas per partition. With 1, no run can show that a record survives the loss of its broker.",
            section=section,
        ),
        "min_insync_replicas": Param(
            None,
            type=["integer", "null"],
            **fields.bounds(*limits(Load, "replication_factor")),
            title="min.insync.replicas",
            description="Empty: as the profile says.",
            section=section,
        ),
        "kafka_version": fields.choice(
            "Kafka version",
            {version: version for version in kafka_versions()},
            version,
            "The version of the brokers; its jars are fetched once.",
            section=section,
        ),
    }


def _repetition() -> dict[str, Param]:
    cycles, seed = fields.default(FaultPlan, "cycles"), fields.default(Scenario, "seed")
    section = f"Length and repetition of the fault (default: as the fault says, {cycles} cycle, seed {seed})"
    return {
        "fault_s": Param(
            None,
            type=["integer", "null"],
            **fields.bounds(1, catalogue.LONGEST_FAULT_S),
            title="Fault lasts (s)",
            description=f"Least seconds that the fault lasts. For {', '.join(catalogue.USUAL_S)}. Empty: until others "
            "lead; 10 s for the last two.",
            section=section,
        ),
        "cycles": fields.number(
            "Cycles",
            FaultPlan,
            "cycles",
            cycles,
            "How often the fault is repeated in one run.",
            section=section,
        ),
        "seed": fields.number(
            "Seed",
            Scenario,
            "seed",
            seed,
            "Two runs with one seed choose the same targets.",
            section=section,
        ),
    }


def _self_test() -> dict[str, Param]:
    return {
        "fail_step": fields.optional_choice(
            "Fail this step",
            {step: step for step in STEPS},
            "no step",
            "Makes one step fail at its entry. Whichever it is, the run must turn red, without a HELD.",
            section="Testing the verifier",
        )
    }
