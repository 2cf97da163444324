"""Transactions of one producer: which sequences belong to a transaction, how a transaction is ended, and which outcome
each transaction had.

A transaction holds a fixed number of consecutive sequences. So a record's transaction is computed and never stored. If
the producer was killed and started again, its next transaction begins with the first sequence that was not sent yet.
The transaction before the kill may then hold fewer sequences. So the file `cuts` in the producer's folder lists the
first sequence after each kill.

The file `transactions` has one letter per transaction, in the order of the transactions. The letter is the
transaction's outcome. It is written as soon as the client reports the end of the transaction. A transaction without a
letter is INDETERMINATE.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from delivery_verifier.load.client import LoadClient
from delivery_verifier.load.live_ledger import Control, Word
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.outcomes import TransactionOutcome

FILE, _CUTS = "transactions", "cuts"
LETTERS = {outcome: outcome.value[:1] for outcome in TransactionOutcome}
WORDS = {TransactionOutcome.COMMITTED: Word.COMMITTED, TransactionOutcome.ABORTED: Word.ABORTED}
"""Maps an outcome to the word of shared memory that counts the transactions with this outcome."""
CALL_S = 5.0
"""How many seconds one call of the client may block. A call that takes longer is repeated."""
MOST_S = 1.0
"""A transaction holds at most as many records as the load sends in this number of seconds. So a slow load has smaller
transactions, and no transaction comes near transaction.timeout.ms. (`size` may round the number of records up.)"""


class Unended(VerifierError, RuntimeError):
    """A transaction could not be ended in time. Its outcome stays unknown, and no other transaction can begin."""


def size(records: int, block: int, partitions: int, rate: float | None = None) -> int:
    """Returns the number of records in one transaction: `records`, or fewer if the load is slow.

    * `rate` is in records per second. With a rate, a transaction holds at most the records of MOST_S seconds. None: the
      load has no rate.
    * `block` consecutive records go to one partition. The number is then rounded up to whole blocks.
    * With two or more partitions, the number is at least two blocks, so that a transaction spans two partitions.
    """
    if rate is not None:
        records = max(1, min(records, int(rate * MOST_S)))
    return max(-(-records // block), min(2, partitions)) * block


class Transactions:
    """Begins and ends the transactions of `client`. Each transaction has `size` sequences.

    `abort_every` says which transactions are aborted on purpose: the second transaction, and every `abort_every`th
    transaction after it. With 1, all transactions are aborted, even the first. With 0, no transaction is aborted on
    purpose. A transaction is aborted once all of its records have delivery reports.

    `deadline_s` is the longest time, in seconds, for which one call of the client is repeated. It is also the longest
    wait for delivery reports.
    """

    def __init__(self, client: LoadClient, folder: Path, size: int, abort_every: int, deadline_s: float) -> None:
        self._client, self._folder, self._control = client, folder, Control(folder)
        self._size, self._abort_every, self._deadline_s = size, abort_every, deadline_s
        self._open, self._first = False, 0

    def init(self) -> None:
        """Registers the transactional.id with its coordinator.

        The coordinator then fences any earlier producer with the same transactional.id, and aborts that producer's open
        transaction.
        """
        self._insist(self._client.init_transactions, "init_transactions")

    def take_over(self, sequence: int) -> None:
        """Resumes after a kill. The next transaction begins with the record that has the number `sequence`.

        The call of `init` has ended the transaction that was open at the kill. Nobody told the producer whether this
        transaction was committed or aborted, so its outcome is INDETERMINATE. Sets the counters of transactions to the
        counts from the files. Adds any difference that the kill does not explain to Word.MISCOUNTED.
        """
        with (self._folder / _CUTS).open("a") as file:
            file.write(f"{sequence}\n")
        begun, self._first = _segments(self._folder, self._size)[-1][::-1]
        letters = _letters(self._folder)
        with (self._folder / FILE).open("a") as file:
            file.write(LETTERS[TransactionOutcome.INDETERMINATE] * (begun - len(letters)))
        counts = {word: letters.count(LETTERS[outcome]) for outcome, word in WORDS.items()} | {Word.BEGUN: begun}
        miscounted = sum(abs(count - self._control[word]) for word, count in counts.items())
        if miscounted > 1:  # the kill may come between one event and its count
            self._control[Word.MISCOUNTED] += miscounted
        for word, count in counts.items():
            self._control[word] = count

    def before_block(self) -> None:
        """Begins a transaction, if none is open."""
        if not self._open:
            self._client.begin_transaction()
            self._open = True
            self._control[Word.BEGUN] += 1

    def after_block(self, sequence: int) -> None:
        """Ends the open transaction if the next record belongs to another transaction. `sequence` is the number of the
        next record."""
        if (sequence - self._first) % self._size == 0:
            self.end()

    def end(self) -> None:
        """Commits or aborts the open transaction. Does nothing if no transaction is open.

        Raises Unended if the client cannot end the transaction in time. Raises KafkaException after an error that a
        retry cannot cure. After either error the transaction is INDETERMINATE.
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
        """Returns whether the open transaction must be aborted on purpose.

        Returns True for the second transaction of the load, and for every `abort_every`th transaction after it. (Even a
        short load has a second transaction.) If `abort_every` is 1, returns True for the first transaction, too. If
        `abort_every` is 0, always returns False.
        """
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
        """Calls the function `call`. Repeats the call after each retriable error, until a call succeeds.

        `what` names the call in an error message. Raises KafkaException for any other error, and Unended after the
        deadline.
        """
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
        with (self._folder / FILE).open("a") as file:
            file.write(LETTERS[outcome])
        if outcome in WORDS:
            self._control[WORDS[outcome]] += 1


def transaction_columns(folder: Path, size: int, sequences: npt.NDArray[np.int64]) -> tuple[pa.Array, pa.Array]:
    """Returns the ledger's columns `transaction` and `transaction_outcome` for `sequences`. Both columns hold strings.

    `sequences` are the numbers of records of one producer. `folder` is the producer's folder. `size` is the number of
    records in a transaction. If `size` is 0, the producer uses no transactions, and both columns hold nulls only.
    """
    if not size:
        nulls = pa.nulls(len(sequences), pa.string())
        return nulls, nulls
    numbers, letters = sequences.copy(), _letters(folder)
    for first, begun in _segments(folder, size):
        behind = sequences >= first
        numbers[behind] = begun + (sequences[behind] - first) // size
    code_of = {letter: code for code, letter in enumerate(LETTERS.values())}
    indeterminate = code_of[LETTERS[TransactionOutcome.INDETERMINATE]]
    codes = np.full(int(numbers.max(initial=-1)) + 1, indeterminate, np.int32)
    ended = [code_of[letter] for letter in letters[: len(codes)]]
    codes[: len(ended)] = ended
    outcomes = pa.DictionaryArray.from_arrays(pa.array(codes[numbers]), pa.array([str(outcome) for outcome in LETTERS]))
    return pa.array(numbers).cast(pa.string()), outcomes.cast(pa.string())


def transactions_of(spec: ProducerSpec, client: LoadClient) -> Transactions | None:
    """Returns the Transactions of the producer that `spec` describes, or None if this producer writes no
    transactions."""
    size = spec.transaction_records
    return Transactions(client, Path(spec.folder), size, spec.abort_every, spec.deadline_s) if size else None


def _segments(folder: Path, size: int) -> list[tuple[int, int]]:
    """Returns the incarnations of the producer in `folder`: one pair (first sequence, number of earlier transactions)
    per incarnation.

    An incarnation begins when the producer is started, and ends when it is killed. `size` is the number of records in a
    whole transaction.
    """
    cuts = [int(line) for line in (folder / _CUTS).read_text().split()] if (folder / _CUTS).exists() else []
    segments = [(0, 0)]
    for cut in cuts:
        first, begun = segments[-1]
        segments.append((cut, begun - (first - cut) // size))
    return segments


def _letters(folder: Path) -> str:
    return (folder / FILE).read_text() if (folder / FILE).exists() else ""


def _error(raised: KafkaException) -> KafkaError:
    return raised.args[0]  # type: ignore[no-any-return]
