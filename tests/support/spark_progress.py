"""Spark's progress as a reader of the live view sees it, and what must hold for the progress of any reconciliation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from delivery_verifier.model.live import LiveSpark
from delivery_verifier.progress import live
from delivery_verifier.run_directory.run_directory import RunDirectory

EVERY_S = 0.02


@contextmanager
def followed(run: RunDirectory) -> Iterator[list[LiveSpark]]:
    """Yields a list. While the block runs, a thread adds to it what Spark does for `run`, whenever that has changed."""
    seen, over = list[LiveSpark](), threading.Event()

    def read() -> None:
        while not over.wait(EVERY_S):
            if (spark := live.spark(run.path)) is not None and seen[-1:] != [spark]:
                seen.append(spark)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield seen
    finally:
        over.set()
        reader.join()


def require_progress(seen: list[LiveSpark], unit: str) -> None:
    """Asserts that `seen` is the progress of a whole reconciliation: it never goes back, and no total is exceeded."""
    numbers = [spark.number for spark in seen]
    assert numbers == sorted(numbers), numbers
    assert len({*numbers}) >= 3 and numbers[0] >= 1, numbers
    assert {spark.unit for spark in seen} == {unit}
    assert all(0 <= spark.done <= spark.tasks for spark in seen), seen
