"""The spec: all that one producer process is told, as a file in its folder."""

from __future__ import annotations

from msgspec import Struct

from delivery_verifier.model.data import Setting


class ProducerSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All that one producer process is told. `connection`: the client properties by which it reaches the cluster, in
    librdkafka's names; they may hold secrets, so that a spec is never written into a run directory. `rate` None: flat
    out. `records` is its floor, and of no account where the load is scripted. `life`: how often it was killed before;
    it then goes on where its ledger says it was. `transaction_records`: records of one transaction, whole blocks; 0:
    none are used. `abort_every`: see Transactions.
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
