"""The version of the verifier that made a run, and the version that judges the run.

The two can differ, because a later version may judge a stored run again. The rules by which a run is judged have no
version of their own: they change with the verifier.
"""

from __future__ import annotations

from typing import NamedTuple

from delivery_verifier import __version__
from delivery_verifier.planning.provenance import commit
from delivery_verifier.store.run_directory import RunDirectory
from delivery_verifier.store.tables import FORMAT_VERSION

NOTE = "verifier"
"""The key of the note in plan.json that holds the version of the verifier. Runs of format version 1 lack this note."""


class RulesVersion(NamedTuple):
    """A version of the rules: version and commit of the verifier, and the version of the run directory's format.

    If `verifier` or `commit` is not known, it is empty or "unknown".
    """

    verifier: str
    commit: str
    format_version: int

    def __str__(self) -> str:
        """The version in words, e.g. `kafka-delivery-verifier 0.1.0, commit 834dd39, format version 2`."""
        verifier, commit = self.verifier or "of an unknown version", self.commit or "unknown"
        return f"kafka-delivery-verifier {verifier}, commit {commit}, format version {self.format_version}"


def of_this_program() -> RulesVersion:
    """Returns the version of the rules by which this program judges."""
    return RulesVersion(__version__, commit(), FORMAT_VERSION)


def of_run(run: RunDirectory) -> RulesVersion:
    """Returns the version of the verifier that made the run. Raises IncompleteRun if the step plan did not finish."""
    plan = run.manifest("plan")
    return RulesVersion(plan.notes.get(NOTE, ""), run.read_scenario().commit, plan.format_version)


def difference(own: RulesVersion, judge: RulesVersion) -> list[str]:
    """If the two versions differ, returns a list with one sentence that names both of them. Otherwise returns an empty
    list.

    `own`: the version that made the run. `judge`: the version that judges the run.
    """
    if own == judge:
        return []
    return [
        f"Judged by the rules of {judge}. The run was made by {own}, whose rules may differ, and so may their verdict."
    ]
