"""The spec of a producer: all inputs of one producer process, stored as a JSON file in the producer's folder."""

from __future__ import annotations

from msgspec import Struct

from delivery_verifier.model.data import Setting


class ProducerSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All inputs of one producer process.

    `connection`: the client properties with which the producer connects, in librdkafka's names. They may hold secrets,
    so a spec is never written into a run directory. `folder`: where the producer keeps its live ledger. `run_token`,
    `arm`, `producer` and `session` are the numbers and the token in the headers of the records, which tell whose
    records they are; `session` is not a session of Kafka. `records` is the least number of records that the producer
    sends, unless the load is `scripted`: then the fault plan says how many. `rate` is in records per second; None: the
    producer sends as fast as it can. `block`: how many consecutive records go to one partition (see LoadLayout).
    `deadline_s`: the seconds for one step, e.g. the warm-up. `life` says how often the producer was killed before. A
    producer with a life above 0 goes on where its ledger ends. `transaction_records` is the number of records in a
    transaction, a whole number of blocks; 0: the producer uses no transactions. `abort_every`: see Transactions.
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
