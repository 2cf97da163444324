"""The entries of the catalogue.

An entry is a ready-made scenario, together with the promise that the scenario tests and the verdicts that are expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from delivery_verifier.catalogue.arm_clients import ONLY_LIBRDKAFKA, for_clients, with_clients
from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.catalogue.single import CANARY_PRODUCERS, arm_of, fitted, token, topics_of
from delivery_verifier.model.application import Application
from delivery_verifier.model.client import VersionedClient
from delivery_verifier.model.data import Name
from delivery_verifier.model.fault_plan import FaultPlan, capabilities_of
from delivery_verifier.model.partition_growth import growth_of
from delivery_verifier.model.scenario import Claim, ClusterSpec, Expectation, Load, OnSigterm, Profile, Scenario

Tag = Literal["smoke", "promises", "everyday", "power"]
"""A word that marks entries. A user can restrict a catalogue run to the entries with one tag."""


class ArmPlan(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One arm of an entry, which is a scenario of the catalogue.

    * `profile`: the delivery settings of the arm.
    * `application`: the program under test that consumes the arm's topic, if any.
    * `claim`: the guarantee that the run tests with this arm.
    * `expectation`: the verdicts that the arm may get, and the counts that it must end with. Its bounds were found with
      librdkafka. `with_other`: the same for other clients, e.g. `java`, or a version, e.g. `java:4.1.1`, if it is known
      (see `expected_with`).
    * `on_sigterm`: how the arm's producers end on SIGTERM, if the fault plan sends it (see `scenario.Arm`).
    """

    name: Name
    role: Literal["subject", "control"]
    profile: Profile
    claim: Claim = "contract"
    expectation: Expectation = Expectation()
    application: Application | None = None
    on_sigterm: OnSigterm | None = None
    with_other: dict[str, Expectation] = {}

    def expected_with(self, client: VersionedClient) -> Expectation:
        """Returns what the arm must show with `client`. What is known of its version comes before what is known of the
        client. A client for which nothing is known has the verdicts of librdkafka, and no bounds: an exact count
        depends on how a client batches and retries. A version of librdkafka must show what librdkafka does."""
        if client.client == "librdkafka":
            return self.with_other.get(client.text, self.expectation)
        of_client = self.with_other.get(client.client, Expectation(verdicts=self.expectation.verdicts))
        return self.with_other.get(client.text, of_client)


class Upstream(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A bug of a client that an entry shows, as the project of the client knows it.

    `reference`: the name of the report. `url`: its address. `status`: what the report says, e.g. which versions have
    the bug. `as_of`: the date of what was read, which may be a stored copy.
    """

    reference: str
    url: str
    status: str
    as_of: str


class Entry(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One scenario of the catalogue.

    * `promise`: a text on what is promised, and where the promise ends. `source`: the document that makes the promise.
    * `records`: the least number of records that each arm sends. 0 means that no number is fixed: the load sends
      exactly what the fault plan asks for (pacing `scripted`).
    * `session_timeout_ms`, `heartbeat_interval_ms`, `elr`, `backend`: see ClusterSpec. An entry without `backend`
      runs on the backend of the host.
    * `min_exposed`: an arm can be HELD only if each injection could have hurt at least this many of the arm's reported
      records.
    * `deterministic`: whether the fault plan alone decides which records are hurt. If not, chance has a part in it.
    * `clients`: the clients with each of which the arms run if the user names none. Empty: librdkafka.
    * `upstream`: the bug that makes an arm break what its contract or its claim forbids. None: an arm is expected to
      break only what a rule of the contract permits.
    * `rules`: the ids of the rules that the entry puts to the test (see `contract.rules`).
    """

    name: Name
    title: str
    promise: str
    source: str
    tags: tuple[Tag, ...]
    arms: tuple[ArmPlan, ...]
    fault: FaultPlan
    load: Load
    records: int = 0
    session_timeout_ms: int = 3000
    heartbeat_interval_ms: int = 500
    elr: bool = True
    backend: str = ""
    min_exposed: Annotated[int, Meta(ge=0)] = 1
    deterministic: bool = True
    clients: tuple[VersionedClient, ...] = ()
    upstream: Upstream | None = None
    rules: tuple[str, ...] = ()
    why_held: str = ""
    """Why no arm is expected to break a promise, or an empty text if an arm may break a promise."""


def cluster_of(
    entry: Entry, kafka_version: str = ClusterSpec().kafka_version, backend: str = ClusterSpec().backend
) -> ClusterSpec:
    """Returns the cluster of `entry`. If the entry names no backend, the cluster gets `backend`."""
    return ClusterSpec(
        backend=entry.backend or backend,
        kafka_version=kafka_version,
        session_timeout_ms=entry.session_timeout_ms,
        heartbeat_interval_ms=entry.heartbeat_interval_ms,
        capabilities=capabilities_of(entry.fault),
        elr=entry.elr,
    )


def build(
    entry: Entry,
    run_id: str,
    kafka_version: str = ClusterSpec().kafka_version,
    backend: str = ClusterSpec().backend,
    clients: Sequence[VersionedClient] = ONLY_LIBRDKAFKA,
    **more: object,
) -> Scenario:
    """Returns the scenario of `entry` for the run `run_id`: the arms of the entry, and a canary.

    The canary is an arm with planted anomalies that the verifier must find. If the entry names no backend, the cluster
    gets `backend`. `clients`: the clients with each of which the arms run (see `arm_clients`). If these are no others
    than the default, the arms run with those of the entry, if it has some. `more` are further fields of Scenario, e.g.
    seed, commit, versions.
    """
    clients = entry.clients if entry.clients and tuple(clients) == ONLY_LIBRDKAFKA else clients
    records = entry.records or _scripted(entry)
    arms = [
        replace(
            arm_of(
                run_id, number, plan.role, plan.profile, claim=plan.claim, expectation=plan.expectation, records=records
            ),
            name=plan.name,
            topic_name=topics_of(run_id)(plan.name),
            application=plan.application,
            on_sigterm=plan.on_sigterm,
        )
        for number, plan in enumerate(entry.arms, 1)
    ]
    plans = {plan.name: plan for plan in entry.arms}
    arms = with_clients(arms, clients, lambda arm, client: plans[arm.name].expected_with(client), topics_of(run_id))
    safe = fitted(PROFILES["safe"], entry.load.replication_factor)
    arms.append(arm_of(run_id, 0, "canary", safe, producers=CANARY_PRODUCERS))
    return Scenario(
        run_id=run_id,
        run_token=token(run_id),
        name=entry.name,
        arms=tuple(arms),
        load=entry.load,
        fault=for_clients(entry.fault, clients),
        min_exposed=entry.min_exposed,
        cluster=cluster_of(entry, kafka_version, backend),
        **more,  # type: ignore[arg-type]
    )


def _scripted(entry: Entry) -> int:
    """Returns how many records each arm sends if the pacing is `scripted`.

    Records are sent in blocks of `load.block` records. Each partition gets

    * one block before the fault plan begins
    * in every cycle, the blocks that the `send` steps of the plan ask for
    * one block after the end of the plan.

    A partition that the plan adds gets only those that are sent afterwards.
    """
    sent = sum(int(step.options.get("blocks", 1)) for step in entry.fault.steps if step.action == "send")
    first, rounds = growth_of(entry.load, entry.fault)
    blocks = (sent * entry.fault.cycles + 2) * entry.load.partitions - rounds * (entry.load.partitions - first)
    return blocks * entry.load.block
