"""One member of an application as a process: how the process is started and gets signals, and what it wrote last."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from delivery_verifier.applications.control import Control, Word
from delivery_verifier.applications.incarnations import incarnations_of, read_end
from delivery_verifier.applications.own.ends import describe_end
from delivery_verifier.applications.own.process import Progress, send_to_group
from delivery_verifier.applications.spec import MemberSpec, incarnation_folder
from delivery_verifier.host.librdkafka import wheels
from delivery_verifier.host.processes import how_it_ended
from delivery_verifier.host.supervision import children
from delivery_verifier.model.application import Application, member_client_id
from delivery_verifier.model.data import Setting, dumps
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.scenario import Arm

ASKED_S = 0.5
"""The verifier asks a broker or a database how far an own member has come. Between two such questions are at least this
many seconds."""
MOST_CHARACTERS = 500
"""The greatest length of what a member said, in an error."""


class MemberDied(VerifierError, RuntimeError):
    """A member of an application ended without a request, or did not end in the way that was requested."""


@dataclass
class MemberProcess:
    """One member of an arm's application, with its control block. An *own* member runs a command of the user's own.

    * `process`: None while the member does not run.
    * `progress`: how far an own member has come in its incarnation; None for other members.
    * `sizes`: the size of each part of the place to which an own member writes, as of the last look.
    * `looked_s`: when this last look was, by the monotonic clock, in seconds.
    """

    arm: Arm
    application: Application
    number: int
    folder: Path
    control: Control
    process: children.Child | None = None
    progress: Progress | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    looked_s: float = 0.0

    @property
    def is_own(self) -> bool:
        """Whether the member runs a command of the user's own."""
        return self.application.discipline == "own"

    def send(self, number: int) -> None:
        """Sends the signal `number` to the process. For an own member (a process of the user application), sends
        the signal to all its processes."""
        assert self.process is not None, "only a member with a process gets signals"
        if self.is_own:
            send_to_group(self.process, number)
        else:
            self.process.send_signal(number)

    def update(self) -> None:
        """Finds out how far an own member (a process of the user application) has come. Does nothing for other
        members. Asks brokers and databases at most once in `ASKED_S` seconds.

        Raises StepFailed if a part of the place to which the member writes is gone. Also raises StepFailed if a part
        has shrunk since the last call or since the last incarnation.
        """
        now_s = time.monotonic()
        if self.progress is None or (self.progress.is_remote and now_s - self.looked_s < ASKED_S):
            return
        self.looked_s = now_s
        *earlier, _ = incarnations_of(self.folder).values()
        before = self.sizes or (read_end(earlier[-1]).sizes if earlier else {})
        self.sizes = dict(self.progress.update(before))

    @property
    def name(self) -> str:
        """The member's name in messages: `<arm>/<number>`."""
        return f"{self.arm.name}/{self.number}"

    def died(self, code: int) -> MemberDied:
        """Returns the error that says how the latest incarnation ended. `code` is the exit code of the process."""
        if self.progress is not None:
            words = describe_end(self.progress)
        else:
            words = children.last_words(self.folder / str(self.control[Word.INCARNATION]), MOST_CHARACTERS)
        return MemberDied(f"member {self.name} ended with {how_it_ended(code)}; it said last: {words or 'nothing'}")


def start_process(spec: MemberSpec) -> children.Child:
    """Starts the process for the incarnation that `spec` describes, and creates the folder of the incarnation. When the
    calling process dies, the started process dies, too. Raises WheelError if librdkafka cannot be had in the version of
    `spec`."""
    environment = wheels.environment(spec.client_version) if spec.client == "librdkafka" else None
    folder = incarnation_folder(spec)
    folder.mkdir(parents=True)
    return children.start_module("delivery_verifier.applications.process", dumps(spec), folder, environment)


def spec_of(
    member: MemberProcess, incarnation: int, group: str, run_token: str, connection: Mapping[str, str]
) -> MemberSpec:
    """Returns the inputs of one incarnation of a member whose program is the verifier's own, not the user's. `group`:
    the group.id of the application. `run_token`: the token of the run. `connection`: the client properties for the
    cluster.
    """
    return MemberSpec(
        folder=str(member.folder),
        incarnation=incarnation,
        connection=dict(connection),
        settings={
            **member.application.consumer,
            "group.id": group,
            "client.id": member_client_id(member.arm.name, member.number),
        },
        topic=member.arm.topic_name,
        run_token=run_token,
        arm=member.arm.ordinal,
        discipline=member.application.discipline,
        batch=member.application.batch,
        producer=_producer_settings(member),
        client=member.application.client,
        client_version=member.application.client_version,
    )


def _producer_settings(member: MemberProcess) -> dict[str, Setting]:
    """Returns the producer settings of a member. They are empty if the member's application is not a transform.

    Each member has a transactional.id of its own, because members with the same id would fence each other. A member
    keeps its id in every incarnation. Otherwise an incarnation could not end the transaction that the previous
    incarnation left open. With the discipline `transform_fenced`, a replacement must fence the member that it replaces.
    So the replacement and the member have the same id.
    """
    settings = member.application.producer
    if not settings:
        return {}
    own: dict[str, Setting] = {"client.id": f"{member.arm.name}-output-{member.number}"}
    if base := member.application.transactional_id:
        heirs = member.application.members if member.application.discipline == "transform_fenced" else member.number + 1
        own["transactional.id"] = f"{base}-{member.arm.name}-{member.number % heirs}"
    return {**settings, **own}
