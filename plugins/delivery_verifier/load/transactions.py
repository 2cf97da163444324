"""Transactions of one producer: which sequences each holds, how it is ended, and how it ended, on file.

A transaction is a fixed number of consecutive sequences, so that which one a record belongs to is computed and never
stored. How each ended is one letter in the file `transactions` of the producer's folder, in order, written as soon as
the client says so; what has no letter is INDETERMINATE.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

from delivery_verifier.load.live_ledger import Control, Word
from delivery_verifier.model.anomalies import TransactionOutcome
from delivery_verifier.model.errors import VerifierError

FILE = "transactions"
LETTERS = {outcome: outcome.value[:1] for outcome in TransactionOutcome}
WORDS = {TransactionOutcome.COMMITTED: Word.COMMITTED, TransactionOutcome.ABORTED: Word.ABORTED}
CALL_S = 5.0
"""How long one call of the client may block; one that is not done by then is made again."""


class Unended(VerifierError, RuntimeError):
    """A transaction could not be ended in time: nobody knows what becomes of it, and no other can begin."""


MOST_S = 1.0
"""How long a transaction may stay open at the load's rate: a slow load has smaller ones, far from any timeout."""


def size(records: int, block: int, partitions: int, rate: float | None = None) -> int:
    """Records of a transaction of `records`, or as many as `rate` sends in MOST_S: whole blocks, and two of them where
    there are two partitions, for a transaction within one partition has nothing to keep together."""
    if rate is not None:
        records = max(1, min(records, int(rate * MOST_S)))
    return max(-(-records // block), min(2, partitions)) * block


class Transactions:
    """Begins and ends the transactions of `client`, of `size` sequences each. The second, and every `abort_every`th
    from it on, is aborted on purpose, once all of its records are acknowledged; 0: none."""

    def __init__(self, client: Producer, folder: Path, size: int, abort_every: int, deadline_s: float) -> None:
        self._client, self._file, self._control = client, folder / FILE, Control(folder)
        self._size, self._abort_every, self._deadline_s = size, abort_every, deadline_s
        self._open = False

    def init(self) -> None:
        """Registers the transactional.id; fences, and aborts what is open of, whoever had it before."""
        self._insist(self._client.init_transactions, "init_transactions")

    def before_block(self) -> None:
        """Begins a transaction, if none is open."""
        if not self._open:
            self._client.begin_transaction()
            self._open = True
            self._control[Word.BEGUN] += 1

    def after_block(self, sequence: int) -> None:
        """Ends the transaction if the next record, `sequence`, belongs to another."""
        if sequence % self._size == 0:
            self.end()

    def end(self) -> None:
        """Commits, or aborts, what is open. Raises KafkaException where the client can do no more, and Unended: then it
        is INDETERMINATE."""
        if not self._open:
            return
        outcome = TransactionOutcome.INDETERMINATE
        try:
            every = self._abort_every
            on_purpose = every and self._control[Word.BEGUN] % every == 2 % every  # a short load, too, has a second one
            outcome = self._abort_when_acknowledged() if on_purpose else self._commit()
        finally:
            self._open = False
            self._note(outcome)

    def _commit(self) -> TransactionOutcome:
        try:
            self._insist(self._client.commit_transaction, "commit_transaction")
        except KafkaException as raised:
            if not _error(raised).txn_requires_abort():
                raise
            return self._abort()
        return TransactionOutcome.COMMITTED

    def _abort_when_acknowledged(self) -> TransactionOutcome:
        self._client.flush(self._deadline_s)
        return self._abort()

    def _abort(self) -> TransactionOutcome:
        self._insist(self._client.abort_transaction, "abort_transaction")
        return TransactionOutcome.ABORTED

    def _insist(self, call: Callable[[float], None], what: str) -> None:
        """Calls again whatever librdkafka says may be called again: then nothing is decided yet."""
        end = time.monotonic() + self._deadline_s
        while True:
            try:
                return call(CALL_S)
            except KafkaException as raised:
                error = _error(raised)
                if error.fatal() or not error.retriable():
                    raise
                if time.monotonic() > end:
                    raise Unended(f"{what} did not end within {self._deadline_s:g} s: {error}") from None

    def _note(self, outcome: TransactionOutcome) -> None:
        with self._file.open("a") as file:
            file.write(LETTERS[outcome])
        if outcome in WORDS:
            self._control[WORDS[outcome]] += 1


def columns(folder: Path, size: int, sequences: npt.NDArray[np.int64]) -> tuple[pa.Array, pa.Array]:
    """The ledger's `transaction` and `transaction_outcome` of `sequences`; nulls where `size` is 0: no transactions."""
    if not size:
        none = pa.nulls(len(sequences), pa.string())
        return none, none
    numbers = sequences // size
    letters = (folder / FILE).read_text() if (folder / FILE).exists() else ""
    known = {letter: place for place, letter in enumerate(LETTERS.values())}
    unended = known[LETTERS[TransactionOutcome.INDETERMINATE]]
    places = np.full(int(numbers.max(initial=-1)) + 1, unended, np.int32)
    ended = [known[letter] for letter in letters[: len(places)]]
    places[: len(ended)] = ended
    outcomes = pa.DictionaryArray.from_arrays(
        pa.array(places[numbers]), pa.array([str(outcome) for outcome in LETTERS])
    )
    return pa.array(numbers).cast(pa.string()), outcomes.cast(pa.string())


def _error(raised: KafkaException) -> KafkaError:
    return raised.args[0]  # type: ignore[no-any-return]
