"""The format versions of the steps of one run. docs/run-directory.md says what a format version is."""

from __future__ import annotations

from itertools import pairwise

from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory


def versions(run: RunDirectory, *steps: str) -> tuple[int, ...]:
    """Returns the format version in the manifest of each of `steps`. The caller names them in the order of a run.

    A stored run may be reconciled and validated again by a newer program, so a later step may have a newer version.
    Raises IncompleteRun if a later step has an older version. A manifest was then altered, because no program
    continues a run that a newer program wrote. Raises IncompleteRun also if a manifest is missing or damaged.
    """
    known = tuple(run.manifest(step).format_version for step in steps)
    for (earlier, older), (later, newer) in pairwise(zip(steps, known, strict=True)):
        if newer < older:
            raise IncompleteRun(
                f"{later}.json has format version {newer}, though it rests on {earlier}.json of version {older}: one "
                "of the two was altered"
            )
    return known
