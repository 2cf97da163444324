"""The spec of a producer: all inputs of one producer process, stored as a JSON file in the producer's folder."""

from __future__ import annotations

from msgspec import Struct

from delivery_verifier.model.client import Client
from delivery_verifier.model.data import Setting
from delivery_verifier.model.scenario import OnSigterm


class ProducerSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All inputs of one producer process.

    * `folder`: the folder of the producer's live ledger.
    * `client`, `client_version`: the client library that sends, and its version. Empty: the default version.
    * `connection`: the client properties with which the producer connects, by the names of `client`. The properties may
      hold secrets, so a spec is never written into a run directory.
    * `settings`: the settings of the producer, by librdkafka's names. They are translated for the Java client (see
      `java.settings`).
    * `java_properties`: the properties that a producer with the Java client gets untranslated (see `Profile`).
    * `run_token`, `arm`, `producer`, `session`: identify the producer in the header of each record's value. `session`
      is not a session of Kafka.
    * `records`: the minimum number of records to send. If the load is `scripted`, the fault plan decides how many
      records are sent.
    * `rate`: records per second. None: the producer sends as fast as it can.
    * `block`: the number of consecutive records that go to one partition (see LoadLayout).
    * `first_partitions`, `first_rounds`: how the number of partitions grows (see LoadLayout).
    * `deadline_s`: the maximum duration of one step, e.g. the warm-up, in seconds.
    * `incarnation`: the number of times that the producer was ended before. If it is above 0, the producer continues
      after the last record in its ledger.
    * `transaction_records`: the number of records in a transaction, a multiple of `block`. 0: no transactions.
    * `abort_every`: every how many transactions the producer aborts one on purpose (see Transactions). 0: never.
    * `on_sigterm`: what the producer does when SIGTERM reaches it in its load (see `scenario.Arm`). None: nothing; the
      signal ends the process.
    """

    folder: str
    connection: dict[str, str]
    settings: dict[str, Setting]
    topic: str
    run_token: str
    arm: int
    producer: int
    session: int
    records: int
    rate: float | None
    block: int
    partitions: int
    payload_bytes: int
    deadline_s: float
    first_partitions: int = 0
    first_rounds: int = 0
    scripted: bool = False
    incarnation: int = 0
    transaction_records: int = 0
    abort_every: int = 0
    on_sigterm: OnSigterm | None = None
    client: Client = "librdkafka"
    client_version: str = ""
    java_properties: dict[str, str] = {}
