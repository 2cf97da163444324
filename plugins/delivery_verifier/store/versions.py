"""The format versions of the steps of one run. docs/run-directory.md says what a format version is."""

from __future__ import annotations

from itertools import pairwise

from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory


def versions(run: RunDirectory, *steps: str) -> tuple[int, ...]:
    """Returns the format version in the manifest of each of `steps`, which stand in the order of a run.

    A newer program may reconcile and validate a stored run again, so a later step may have a newer version. But no
    program continues a run that a newer program wrote. So if a later step has an older version than an earlier step, a
    manifest was altered. Raises IncompleteRun in this case, and if a manifest is missing or damaged.
    """
    known = tuple(run.manifest(step).format_version for step in steps)
    for (earlier, older), (later, newer) in pairwise(zip(steps, known, strict=True)):
        if newer < older:
            raise IncompleteRun(
                f"{later}.json has format version {newer}, though it rests on {earlier}.json of version {older}: one "
                "of the two was altered"
            )
    return known
