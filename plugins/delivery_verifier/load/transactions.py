"""Transactions of one producer: which sequences each holds, how it is ended, and a file of how each ended.

A transaction is a fixed number of consecutive sequences. So a record's transaction is computed and never stored. The
file `transactions` of the producer's folder has one letter per transaction, in order: how it ended. A letter is written
as soon as the client reports the end. A transaction without a letter is INDETERMINATE.
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
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.outcomes import TransactionOutcome

FILE = "transactions"
LETTERS = {outcome: outcome.value[:1] for outcome in TransactionOutcome}
WORDS = {TransactionOutcome.COMMITTED: Word.COMMITTED, TransactionOutcome.ABORTED: Word.ABORTED}
CALL_S = 5.0
"""How long one call of the client may block. A call that is not done by then is made again."""
MOST_S = 1.0
"""How long a transaction may stay open at the load's rate. So a slow load has smaller transactions, and no transaction
comes near a timeout."""


class Unended(VerifierError, RuntimeError):
    """A transaction could not be ended in time. Nobody knows what becomes of it, and no other can begin."""


def size(records: int, block: int, partitions: int, rate: float | None = None) -> int:
    """The number of records in one transaction: `records`, or as many as `rate` sends in MOST_S if those are fewer.

    `rate` is in records per second. The number is rounded up to whole blocks. With two or more partitions it is at
    least two blocks: a transaction within one partition has nothing to keep together.
    """
    if rate is not None:
        records = max(1, min(records, int(rate * MOST_S)))
    return max(-(-records // block), min(2, partitions)) * block


class Transactions:
    """Begins and ends the transactions of `client`, of `size` sequences each.

    The second transaction, and every `abort_every`th after it, is aborted on purpose, once all of its records are
    acknowledged. With `abort_every` 0 none is. `deadline_s` bounds how long the client may take for one step.
    """

    def __init__(self, client: Producer, folder: Path, size: int, abort_every: int, deadline_s: float) -> None:
        self._client, self._file, self._control = client, folder / FILE, Control(folder)
        self._size, self._abort_every, self._deadline_s = size, abort_every, deadline_s
        self._open = False

    def init(self) -> None:
        """Registers the transactional.id. This fences any earlier producer with it, and aborts its open transaction."""
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
        """Commits, or aborts, the open transaction, if there is one.

        Raises KafkaException where the client can do no more, and Unended. The transaction is INDETERMINATE then.
        """
        if not self._open:
            return
        outcome = TransactionOutcome.INDETERMINATE
        try:
            outcome = self._abort_when_acknowledged() if self._is_to_be_aborted() else self._commit()
        finally:
            self._open = False
            self._note(outcome)

    def _is_to_be_aborted(self) -> bool:
        """Whether the open transaction is the second, or one of every `abort_every` after it. Even a short load has a
        second transaction."""
        if not self._abort_every:
            return False
        return (self._control[Word.BEGUN] - 2) % self._abort_every == 0

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
        """Repeats `call` until it succeeds. A retriable error decides nothing, so the call is made again."""
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


def transaction_columns(folder: Path, size: int, sequences: npt.NDArray[np.int64]) -> tuple[pa.Array, pa.Array]:
    """The ledger's columns `transaction` and `transaction_outcome` for `sequences`, both strings.

    `size` is the number of records in a transaction. Both columns are null where it is 0: no transactions are used.
    """
    if not size:
        nulls = pa.nulls(len(sequences), pa.string())
        return nulls, nulls
    numbers = sequences // size
    letters = (folder / FILE).read_text() if (folder / FILE).exists() else ""
    code_of = {letter: code for code, letter in enumerate(LETTERS.values())}
    indeterminate = code_of[LETTERS[TransactionOutcome.INDETERMINATE]]
    codes = np.full(int(numbers.max(initial=-1)) + 1, indeterminate, np.int32)
    ended = [code_of[letter] for letter in letters[: len(codes)]]
    codes[: len(ended)] = ended
    outcomes = pa.DictionaryArray.from_arrays(pa.array(codes[numbers]), pa.array([str(outcome) for outcome in LETTERS]))
    return pa.array(numbers).cast(pa.string()), outcomes.cast(pa.string())


def _error(raised: KafkaException) -> KafkaError:
    return raised.args[0]  # type: ignore[no-any-return]
