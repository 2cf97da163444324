"""The format versions of the steps of one run. docs/reference/run-directory.md says what a format version is."""

from __future__ import annotations

from itertools import pairwise

from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory


def versions(run: RunDirectory, *steps: str) -> tuple[int, ...]:
    """Returns the format versions in the manifests of `steps`. `steps` must be in the order in which a run performs
    them.

    Raises IncompleteRun if a manifest is missing or damaged. Also raises IncompleteRun if a later step has an older
    version than an earlier step. Then a manifest was altered, because no older program continues the run of a newer
    program. A later step may have a newer version, because a newer program can reconcile and validate a stored run
    again.
    """
    known = tuple(run.manifest(step).format_version for step in steps)
    for (earlier, older), (later, newer) in pairwise(zip(steps, known, strict=True)):
        if newer < older:
            raise IncompleteRun(
                f"{later}.json has format version {newer}, though it rests on {earlier}.json of version {older}: one "
                "of the two was altered"
            )
    return known
