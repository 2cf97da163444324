"""Producer processes that a test starts against a broker of its own, and their ledgers after their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.load.layout import LoadLayout
from delivery_verifier.load.live_ledger import Control, Gate, Word
from delivery_verifier.load.producer_process import ProducerProcess, start_process
from delivery_verifier.load.publish_ledger import counted_outcomes, publish_ledger
from delivery_verifier.load.resends import still_open
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model.scenario import Arm

TRANSACTION_RECORDS = 20


def start(folder: Path, connection: Mapping[str, str], profile: str, **more: Any) -> ProducerProcess:
    """Starts producer `one/0/0`, which sends 2,000 records per second without an end. Lets it begin its warm-up.

    `more` overrides fields of its spec.
    """
    settings = {"client.id": "one-0", **PROFILES[profile].producer, "linger.ms": 5}
    plain: dict[str, Any] = {
        "folder": str(folder),
        "connection": dict(connection),
        "settings": settings,
        "topic": "t",
        "run_token": "abcdefgh",
        "arm": 1,
        "producer": 0,
        "session": 0,
        "records": 10_000_000,
        "rate": 2000.0,
        "block": 5,
        "partitions": 2,
        "payload_bytes": 100,
        "deadline_s": 30.0,
        "transaction_records": TRANSACTION_RECORDS if "transactional.id" in settings else 0,
    }
    spec = ProducerSpec(**(plain | more))
    control = Control(folder)
    arm = Arm(name="one", ordinal=1, role="subject", profile=PROFILES[profile], topic_name=spec.topic)
    made = ProducerProcess(arm, spec, start_process(spec), control)
    control[Word.GATE] = Gate.WARM_UP
    return made


def sealed(producer: ProducerProcess, folder: Path) -> list[dict[str, Any]]:
    """Turns the live ledger of a producer that has ended into its final ledger, in `folder`. Returns the rows.

    Asserts that the ledger has as many attempts, and as many reports of each outcome, as the producer has counted, and
    that no attempt counts as outstanding.
    """
    file, spec = folder / "ledger.parquet", producer.spec
    layout = LoadLayout(spec.block, spec.partitions)
    publish_ledger(producer.folder, file, "one", 0, 0, layout, spec.transaction_records)
    rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    told = Counter(row["outcome"] for row in rows if row["made_by"] == "client")
    counted = counted_outcomes(producer.control, "all")
    assert {outcome: told[outcome] for outcome in counted if outcome != "miscounted"} == {
        outcome: count for outcome, count in counted.items() if outcome != "miscounted"
    }
    assert producer.control[Word.ATTEMPTED] == len(rows) and still_open(producer.control) == 0
    return rows
