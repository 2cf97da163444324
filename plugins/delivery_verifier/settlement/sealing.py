"""Seals ledgers: turns the live ledgers of producers that have ended into files of a step's output."""

from __future__ import annotations

from collections.abc import Iterable

from delivery_verifier.load.live_ledger import Word
from delivery_verifier.load.producer_process import IN_LOAD, ProducerProcess
from delivery_verifier.load.publish_ledger import counted_outcomes, publish_ledger
from delivery_verifier.run_directory import ledger
from delivery_verifier.run_directory.run_directory import StepOutput


def seal_ledgers(producers: Iterable[ProducerProcess], output: StepOutput) -> None:
    """Waits for the end of each producer. Adds each producer's ledger (all sends with their outcomes) to `output`, and
    the counts that each producer made itself."""
    (output.staging / "ledger").mkdir(exist_ok=True)
    for producer in producers:
        producer.process.wait(timeout=30)
        file = output.staging / "ledger" / f"{producer.name.replace('/', '-')}.parquet"
        announced = publish_ledger(
            producer.folder,
            file,
            producer.arm.name,
            producer.spec.producer,
            producer.spec.session,
            producer.layout,
            producer.spec.transaction_records,
        )
        output.counts[f"announced/{producer.name}"] = announced
        output.counts[f"attempted/{producer.name}"] = producer.control[Word.ATTEMPTED]
        for outcome, count in counted_outcomes(producer.control, str(producer.spec.settings["acks"])).items():
            output.counts[ledger.outcomes_key(outcome, producer.name)] = count
        if producer.arm.transactional_id:
            for word in (Word.BEGUN, Word.COMMITTED, Word.ABORTED):
                output.counts[f"transactions_{word.name.lower()}/{producer.name}"] = producer.control[word]
        output.counts[f"restarts/{producer.name}"] = producer.spec.incarnation
        if producer.process.returncode == IN_LOAD:
            output.notes[f"{ledger.ENDED_EARLY}{producer.name}"] = producer.ended_early
