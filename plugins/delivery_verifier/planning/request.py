"""The request: the one declaration of a run, that is, of everything a user can ask for.

The options of `kdv run` and their help, the trigger form, the checks of what was entered, the command that repeats a
run, and docs/reference/request.md are derived from it. A new field is one entry of `Request`.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct

from delivery_verifier import catalogue
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.scenario import (
    MOST_STARTED,
    MOST_STARTED_BROKERS,
    Arm,
    Claim,
    ClusterSpec,
    Load,
    OwnPacing,
    Scenario,
)
from delivery_verifier.model.steps import StepName
from delivery_verifier.planning import choices
from delivery_verifier.planning.field import Words, fields_of, like

SECTIONS = {
    "": "",
    "catalogue": "Catalogue (default: no scenario)",
    "settings": "Own settings (default: none)",
    "load": "Load (default: {pacing}, {producers} producer per arm, {payload_bytes} bytes)",
    "topic": "Topic and cluster (default: {partitions} partitions, {replication_factor} replicas, "
    "Kafka {kafka_version})",
    "repetition": "Length and repetition of the fault (default: as the fault says, {cycles} cycle, seed {seed})",
    "testing": "Testing the verifier",
}
"""The title of each section of the form, by its key, in the order of the form. A title names the defaults.

The UI folds all sections, and opens only one at a time. Fields without a section are always visible.
"""
_LOAD = Load()
_question = partial(Words, group="the question")
_settings = partial(
    Words, group="settings of your own", section="settings", is_of_profile=True, beside_a_scenario="refused"
)
_load = partial(Words, group="the load", section="load")
_topic = partial(Words, group="topics and cluster", section="topic")


class Request(Struct, frozen=True, kw_only=True):
    """What a user asks of a run.

    The order is that of `--help` and, within a section, that of the form. Limits that a class of the scenario declares
    are taken from there (`like`).
    """

    scenario: Annotated[
        str | None,
        Meta(
            title="Scenario of the catalogue",
            description="In place of everything above: a ready-made scenario with its arms, fault and expectations. "
            "Only seed and Kafka version are taken from below.",
        ),
        _question(
            help="a scenario of the catalogue, in place of profile, fault, claim and load; `kdv list scenarios`",
            metavar="NAME",
            section="catalogue",
            choices=choices.scenarios,
            empty="no scenario: the other fields count",
            remedy=choices.LISTED,
            beside_a_scenario="counts",
        ),
    ] = None
    profile: Annotated[
        str,
        Meta(title="Delivery profile", description="The producer and topic settings to be verified."),
        _question(
            help="delivery settings to be verified (default {default}); `kdv list profiles`",
            metavar="NAME",
            choices=choices.profiles,
            check=choices.check_profile,
            is_of_profile=True,
        ),
    ] = "safe"
    application: Annotated[
        str | None,
        Meta(
            title="Application",
            description="A consumer under test that applies the subject's records: what it skips or applies twice is "
            "compared with the log. Empty: only the log is verified. A program of your own has the name that the "
            "operator of the host has given it. A new one appears here after a minute at most. If its group never "
            "commits (offsets in a checkpoint), a killed one may be VIOLATED, and never HELD.",
        ),
        _question(
            help="a consumer under test that applies the subject's records; its effects are compared with the log "
            "(default none); one of the catalogue, or of your own; `kdv list applications`",
            metavar="NAME",
            choices=choices.applications,
            empty="no application",
            check=choices.check_application,
            beside_a_scenario="refused",
        ),
    ] = None
    fault: Annotated[
        str,
        Meta(title="Fault", description="What is done to the brokers while the load flows."),
        _question(
            help="what is done to the brokers (default {default})",
            choices=choices.faults,
            check=choices.check_fault,
            is_stated=True,
        ),
    ] = "kill_leader"
    fault_s: Annotated[
        int | None,
        Meta(
            ge=1,
            le=catalogue.LONGEST_FAULT_S,
            title="Fault lasts (s)",
            description=f"Least seconds that the fault lasts. For {', '.join(catalogue.USUAL_S)}. Empty: until others "
            "lead; 10 s for the last two.",
        ),
        _question(
            help=f"least whole seconds that the fault lasts: {', '.join(catalogue.USUAL_S)} only (default: until "
            "others lead; 10 for the last two)",
            section="repetition",
            example=30,
        ),
    ] = None
    cycles: Annotated[
        int,
        like(FaultPlan, "cycles", title="Cycles", description="How often the fault is repeated in one run."),
        _question(help="how often the fault is repeated in one load (default {default})", section="repetition"),
    ] = 1
    claim: Annotated[
        Claim,
        Meta(
            title="Claim",
            description="What must hold: what the settings promise, or a stronger guarantee that the run then tries to "
            "refute.",
        ),
        _question(
            help="what must hold: the settings' contract (default), or more; ordered speaks of first copies, later "
            "copies are for exactly_once to forbid",
            choices=choices.claims,
        ),
    ] = "contract"
    clients: Annotated[
        str,
        Meta(
            title="Clients",
            description="What sends the records. Several, e.g. librdkafka,java: each arm runs with each of them, under "
            "one fault, and the report says which client did it. Also with a version, e.g. java:4.1.1.",
        ),
        _question(
            help="what sends the records, e.g. librdkafka,java or java:4.1.1,java:4.1.2: each arm runs with each of "
            "them (default {default})",
            metavar="{librdkafka,java}[:VERSION],...",
            examples=choices.clients,
            check=choices.check_clients,
            beside_a_scenario="counts",
        ),
    ] = "librdkafka"
    own_profile: Annotated[Any, Words(beside_a_scenario="refused", is_of_profile=True)] = None
    """A whole `model.scenario.Profile`, which `kdv` has read from the user's files, or has saved before."""
    producer_config: Annotated[
        str | None,
        Meta(
            title="Producer settings",
            description="A whole .properties file: Kafka's own names, Spring Boot's or Kafka Connect's. Choose the "
            f"profile {choices.OWN} above. The topic then has Kafka's own defaults. Passwords are refused: Airflow "
            "keeps what is entered here, and no run uses them.",
        ),
        _settings(
            help="producer settings: .properties, Spring Boot's, Kafka Connect's ... (docs/settings.md)",
            metavar="FILE",
            check=choices.check_text,
        ),
    ] = None
    written_for: Annotated[
        str | None,
        Meta(
            title="Settings were written for",
            description="The client whose defaults fill the gaps, also with a version, e.g. java:3.1. Empty: the "
            "client by the names of the settings, in its newest version.",
        ),
        _settings(
            help="the client for which the file was written: its defaults fill the gaps (default: by the names in the "
            "file, and the newest version), e.g. java:3.1",
            metavar="{java,librdkafka}[:VERSION]",
            examples=choices.written_for,
            check=choices.check_written_for,
        ),
    ] = None
    producer_overrides: Annotated[
        str | None,
        Meta(
            title="Producer overrides",
            description="One name=value to a line, in place of the profile's, e.g. linger.ms=100. Not beside pasted "
            "settings.",
        ),
        _settings(
            option="producer_override",
            help="one producer setting, or java.NAME=VALUE for the Java client alone; repeatable",
            check=choices.check_text,
        ),
    ] = None
    topic_overrides: Annotated[
        str | None,
        Meta(
            title="Topic overrides",
            description="One name=value to a line, in place of the profile's, e.g. "
            "unclean.leader.election.enable=true.",
        ),
        _settings(option="topic_override", help="one topic setting; repeatable", check=choices.check_text),
    ] = None
    records: Annotated[
        int,
        like(
            Arm,
            "records",
            ge=catalogue.FEWEST_RECORDS,
            title="Records",
            description="Minimum number of records, {least:,} or more. Sending goes on until the fault is over, so "
            "usually more are sent.",
        ),
        _load(
            help="least number of records that the subject sends, {least} or more (default {default}); it goes on "
            "until the fault is over",
            section="",
            is_stated=True,
        ),
    ] = 20_000
    rate: Annotated[
        int | None,
        like(Load, "rate", title="Rate (records/s)", description="Empty: paced as chosen below."),
        _load(help="records per second and arm; without it the load is paced", example=2000),
    ] = None
    pacing: Annotated[
        OwnPacing,
        Meta(title="Pacing", description="How the load is paced without a rate."),
        _load(help="spread over the planned duration (default), or flat_out", choices=choices.pacings),
    ] = "spread"
    producers: Annotated[
        int,
        like(Arm, "producers", le=MOST_STARTED, title="Producers", description="Producer processes."),
        _load(help="producer processes of the subject (default {default})"),
    ] = 1
    payload_bytes: Annotated[
        int,
        like(
            Load,
            "payload_bytes",
            title="Record size (bytes)",
            description="Size of a record's value, header and checksum included.",
        ),
        _load(help="bytes per record, at least {least} (default {default})"),
    ] = _LOAD.payload_bytes
    transaction_records: Annotated[
        int,
        like(
            Load,
            "transaction_records",
            title="Records per transaction",
            description="Of profiles with a transactional.id; in whole blocks, and no more than a second sends.",
        ),
        _load(
            help="records of a transaction, in whole blocks and no more than a second sends; of arms with a "
            "transactional.id (default {default})"
        ),
    ] = _LOAD.transaction_records
    abort_every: Annotated[
        int,
        # With 1, every transaction would be aborted, and with 0 none. HELD needs both kinds.
        like(
            Load,
            "abort_every",
            ge=2,
            title="Abort every",
            description="Profiles with a transactional.id only. Aborts the second transaction and every Nth from it "
            "on, on purpose; a read_committed consumer must never see them.",
        ),
        _load(help="abort the 2nd transaction and then every N-th (default {default})"),
    ] = _LOAD.abort_every
    duration_s: Annotated[
        float | None,
        like(Load, "duration_s"),
        _load(help="seconds over which a spread load is paced (default: the fault's, + 4)"),
    ] = None
    recovery_s: Annotated[
        float,
        like(Load, "recovery_s"),
        _load(help="seconds for which the load goes on after the fault plan (default {default:g})"),
    ] = _LOAD.recovery_s
    deadline_s: Annotated[
        float | None,
        like(Load, "deadline_s"),
        _load(help="longest single wait during the load (default: grows with the load)"),
    ] = None
    min_exposed: Annotated[
        int | None,
        like(Scenario, "min_exposed", ge=1),
        _load(help="fewer exposed records than this forbid HELD (default 100, or 1% of records)", example=100),
    ] = None
    partitions: Annotated[
        int, like(Load, "partitions", title="Partitions", description="Partitions per topic."), _topic()
    ] = _LOAD.partitions
    replication_factor: Annotated[
        int,
        like(
            Load,
            "replication_factor",
            le=MOST_STARTED_BROKERS,
            title="Replication factor",
            description="Replicas per partition. With 1, no run can show that a record survives the loss of its "
            "broker.",
        ),
        _topic(),
    ] = _LOAD.replication_factor
    min_insync_replicas: Annotated[
        int | None,
        like(
            Load,
            "replication_factor",
            le=MOST_STARTED_BROKERS,
            title="min.insync.replicas",
            description="Empty: as the profile says.",
        ),
        _topic(
            help="min.insync.replicas of the subject's topic (default: the profile's)",
            sets=("topic", "min.insync.replicas"),
            example=2,
        ),
    ] = None
    kafka_version: Annotated[
        str,
        Meta(title="Kafka version", description="The version of the brokers; its jars are fetched once."),
        _topic(
            help="version of the brokers (default {default})",
            metavar="KAFKA_VERSION",
            choices=choices.kafka_versions,
            is_stated=True,  # the default changes with time, and the command is stored with the run
            beside_a_scenario="counts",
        ),
    ] = ClusterSpec().kafka_version
    cluster: Annotated[
        str | None,
        Meta(
            title="Cluster that somebody else runs",
            description="Empty: the run starts a cluster of its own. Else the name of a file or folder in the "
            "operator's folder of connections, or airflow:CONN_ID, a connection of type kafka. Only the name travels. "
            "Without commands, no broker can be broken there: choose the fault none, or one of producers or "
            "applications. Choose a rate.",
        ),
        Words(section="topic", examples=choices.clusters, check=choices.check_cluster, beside_a_scenario="counts"),
    ] = None
    commands: Annotated[
        str | None,
        Meta(
            title="Commands that break it",
            description="Empty: no broker is broken there. Else the name of a file of the operator, which has a "
            "command for each action, e.g. kubectl. Commands are never typed here, and only the name travels.",
        ),
        Words(section="topic", examples=choices.commands, check=choices.check_commands, beside_a_scenario="counts"),
    ] = None
    beside: Annotated[
        str | None,
        Meta(
            title="Beside these runs there",
            description="One name to a line: runs of other homes on that cluster, beside which this one goes on.",
        ),
        Words(section="topic", check=choices.check_beside, beside_a_scenario="counts"),
    ] = None
    seed: Annotated[
        int,
        like(
            Scenario,
            "seed",
            title="Seed",
            description="Decides which broker leads partition 0 at first, and with which broker rotating targets "
            "begin.",
        ),
        _topic(
            help="decides which broker leads partition 0 at first, and with which broker rotating targets begin "
            "(default {default})",
            section="repetition",
            beside_a_scenario="counts",
        ),
    ] = 0
    fail_step: Annotated[
        StepName | None,
        Meta(
            title="Fail this step",
            description="Makes one step fail at its entry. Whichever it is, the run must turn red, without a HELD.",
        ),
        Words(
            group="testing the verifier",
            help="make one step fail at its entry, to see the alarm work",
            section="testing",
            empty="no step",
            beside_a_scenario="counts",
        ),
    ] = None
    owner: Annotated[Any, Words(beside_a_scenario="counts")] = None
    """The process with which the run ends, or None."""


FIELDS = fields_of(Request)
"""The fields of a run by name, in the order of `--help`."""


def sections() -> dict[str, str]:
    """Returns the title of each section of the form, with the defaults, by its key. In the order of the form."""
    defaults = {name: field.default for name, field in FIELDS.items()}
    return {key: title.format(**defaults) for key, title in SECTIONS.items()}
