"""The spec of a producer: all inputs of one producer process, stored as a JSON file in the producer's folder."""

from __future__ import annotations

from msgspec import Struct

from delivery_verifier.model.data import Setting


class ProducerSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All inputs of one producer process.

    `connection`: the client properties with which the producer connects, in librdkafka's names. They may hold secrets,
    so a spec is never written into a run directory. `records` is the floor: the producer sends at least this number of
    records, unless the load is `scripted`. `rate` is in records per second; None: the producer sends flat out, as fast
    as it can. `life` says how often the producer was killed before. A producer with a life above 0 goes on where its
    ledger ends. `transaction_records` is the number of records in a transaction, a whole number of blocks; 0: the
    producer uses no transactions. `abort_every`: see Transactions.
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
