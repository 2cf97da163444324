"""Errors of the Kafka client: which exceptions stand for a fatal error, and the error as one line of text.

After a fatal error a client sends nothing any more. The error leaves the client's calls in three forms:

* `poll` and the calls about transactions raise KafkaException.
* The client may call a callback while it raises KafkaException. The first call of this callback into the client then
  fails. So `poll` or `flush` raises SystemError, and KafkaException is its cause. This one callback has no effect: if
  it was a delivery report, the attempt gets no report.
* `flush` may raise KafkaError itself, which is no subclass of Exception.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from delivery_verifier.load.live_ledger import error_code
from delivery_verifier.load.resends import read_slots
from delivery_verifier.load.transactions import Unended

REFUSALS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""The codes of errors that no retry cures: no ACL allows what the producer does. They are codes of Kafka's protocol."""


def fatal_error(raised: BaseException | KafkaError) -> KafkaError | None:
    """Returns the fatal error of the client for which `raised` stands. Returns None if there is none."""
    cause: BaseException | KafkaError | None = raised
    while cause is not None:
        error = cause.args[0] if isinstance(cause, KafkaException) and cause.args else cause
        if isinstance(error, KafkaError):
            return error if error.fatal() else None
        cause = getattr(error, "__cause__", None)
    return None


def ending(work: Callable[[], object]) -> str:
    """Calls `work`. If a fatal client error or Unended stops it, returns this error in words. Raises any other error.

    Returns an empty text if `work` has come to its end.
    """
    try:
        work()
    except Unended as error:
        return str(error)
    except (Exception, KafkaError) as raised:  # type: ignore[misc]  # KafkaError is no Exception
        if (fatal := fatal_error(raised)) is None:
            raise
        return error_text(fatal)
    return ""


def refusal(folder: Path, count: int) -> str:
    """Returns the error with which brokers have refused each of the first `count` attempts for good. Returns an empty
    text if they have not. `folder` is the producer's folder."""
    errors = errors_reported(folder, count)
    if errors.total() < count or not errors.keys() <= REFUSALS:
        return ""
    return f"{error_text(KafkaError(max(errors)))} (all {count} records of the warm-up)"


def error_text(error: KafkaError) -> str:
    """Returns the error as `<librdkafka's name of it>: <what the client says>`."""
    return f"{error.name()}: {error.str()}"


def errors_reported(folder: Path, count: int) -> Counter[int]:
    """Returns how many of the first `count` attempts of a producer ended with each error, by the error's code (see
    `error_codes`). `folder` is the producer's folder. No resend is counted."""
    results = read_slots(folder, 0, count)[0] if count else np.empty(0, np.int64)
    values, times = np.unique(results, return_counts=True)
    codes = [error_code(int(value)) for value in values]
    return Counter({code: int(count) for code, count in zip(codes, times, strict=True) if code is not None})
