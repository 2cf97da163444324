"""A load that is acknowledged and then lost. Its broker keeps no record after the producer process has ended.

The broker is librdkafka's mock cluster, which runs inside the client (`test.mock.num.brokers` in librdkafka's
CONFIGURATION.md). Everything else is as in any load: the process, its delivery reports, its live ledger and its
counters. So every record of this load is acknowledged and LOST.

The canary uses this load. All other rows of the canary's ledger are made by hand. This load is the only proof that a
real producer's ledger keeps the reports of records that are then lost.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from delivery_verifier.load.live_ledger import Control, Gate, Word
from delivery_verifier.load.producer_process import ProducerProcess, start_process
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model.scenario import Scenario

PRODUCER = 1
"""The number of this producer in the canary arm. Number 0 belongs to the ledger rows that the step `settle` makes."""
DEADLINE_S = 60.0
"""The longest time, in seconds, that the process may take. It needs about one second."""
MOCK_CLUSTER = {"test.mock.num.brokers": "1"}
"""The client properties with which the producer connects. They make the client run the mock cluster and use it, so the
producer needs no address of a broker."""


def send_and_forget(scenario: Scenario, folder: Path, records: int) -> ProducerProcess:
    """Sends `records` records as the canary's producer 1 (PRODUCER), and waits until the producer process has ended.

    The process writes its live ledger to `folder`. Returns the producer. Raises ProducerDied if the process fails, or
    does not end in time.
    """
    arm = scenario.canary
    spec = ProducerSpec(
        folder=str(folder),
        connection=MOCK_CLUSTER,
        settings={"client.id": f"{arm.name}-{PRODUCER}", **arm.profile.producer},
        topic=arm.topic_name,
        run_token=scenario.run_token,
        arm=arm.ordinal,
        producer=PRODUCER,
        session=0,
        records=records,
        rate=None,
        block=records,
        partitions=1,
        payload_bytes=scenario.load.payload_bytes,
        deadline_s=DEADLINE_S / 2,
    )
    control = Control(folder)
    control[Word.GATE] = Gate.RELEASE
    producer = ProducerProcess(arm, spec, start_process(spec), control)
    try:
        code = producer.process.wait(DEADLINE_S)
    except subprocess.TimeoutExpired:
        producer.process.kill()
        code = producer.process.wait()
    if code != 0:
        raise producer.died(code)
    return producer
