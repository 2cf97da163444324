"""The spec of a producer: all inputs of one producer process, stored as a JSON file in the producer's folder."""

from __future__ import annotations

from msgspec import Struct

from delivery_verifier.model.data import Setting


class ProducerSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All inputs of one producer process.

    `folder` holds the producer's live ledger. `connection` has the client properties with which the producer connects,
    by librdkafka's names. They may hold secrets, so a spec is never written into a run directory. `run_token`, `arm`,
    `producer` and `session` are written into the header of each record's value, and identify the producer. `session` is
    not a session of Kafka. `records` is the least number of records that the producer sends. If the load is `scripted`,
    the fault plan sets the number instead. `rate` is in records per second. If it is None, the producer sends as fast
    as it can. `block` consecutive records go to one partition (see LoadLayout). One step, e.g. the warm-up, may take
    `deadline_s` seconds. `life` says how often the producer was killed before. With a `life` above 0, the producer goes
    on where its ledger ends. `transaction_records` is the number of records in a transaction, a whole number of blocks.
    If it is 0, the producer uses no transactions. `abort_every` is explained in Transactions.
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
    scripted: bool = False
    life: int = 0
    transaction_records: int = 0
    abort_every: int = 0
