"""The actions of a fault plan on applications, in words and data. The code that performs the actions is in `faults`."""

from __future__ import annotations

from delivery_verifier.model.act import Act
from delivery_verifier.model.step_options import CRASH_POINT, NTH_BATCH, NTH_RECORD

OF_APPLICATIONS: tuple[Act, ...] = (
    Act(
        name="park",
        summary="Every member of an application stands still when it comes to a named point of its work.",
        whom="application",
        options=(CRASH_POINT, NTH_BATCH, NTH_RECORD),
    ),
    Act(
        name="kill_application",
        summary="SIGKILL for every member of every application: what it had in hand stays as it is.",
        done="was killed",
        bites=True,
        whom="application",
        counts_as=("application_crash",),
    ),
    Act(
        name="restart_application",
        summary="Starts the members of applications again; each goes on where its group has committed.",
        heals=("kill_application",),
        whom="application",
    ),
    Act(
        name="freeze_application",
        summary="SIGSTOP for the member of every application: another process, its substitute, takes its place.",
        done="was frozen and replaced",
        bites=True,
        proof_only_before_heal=True,
        whom="application",
        counts_as=("application_freeze",),
    ),
    Act(
        name="thaw_application",
        summary="SIGCONT for the frozen members: each goes on with what it has in hand, until it is refused or has "
        "no more to do. Then it ends.",
        done="went on behind its substitute",
        bites=True,
        momentary=True,
        heals=("freeze_application",),
        whom="application",
    ),
    Act(
        name="rewind",
        summary="An operator stops the applications, sets their groups back to offset 0, and starts them again.",
        done="was set back to offset 0",
        bites=True,
        momentary=True,
        whom="application",
        counts_as=("rewind",),
    ),
)
"""The actions on the members of all applications. `fault_actions.ACTS` has them, too."""
