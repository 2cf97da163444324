"""One member process. Run it as `python -m delivery_verifier.applications.process SPEC`. SPEC is the path of a
`MemberSpec` as JSON."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from confluent_kafka import KafkaError, KafkaException

from delivery_verifier.applications.clients import MemberConsumer, consumer_of
from delivery_verifier.applications.commits import CommitUnknown
from delivery_verifier.applications.database import OffsetMoved
from delivery_verifier.applications.database_member import DatabaseMember
from delivery_verifier.applications.incarnations import FENCED, OFFSET_MOVED
from delivery_verifier.applications.member import Member
from delivery_verifier.applications.output import OutputFailed
from delivery_verifier.applications.slots import SlotWriter
from delivery_verifier.applications.spec import MemberSpec, incarnation_folder
from delivery_verifier.applications.transform import Transform
from delivery_verifier.host.librdkafka import wheels
from delivery_verifier.load.client_errors import error_text, fatal_error
from delivery_verifier.model.application import Discipline


def _into_slots(spec: MemberSpec, client: MemberConsumer) -> Member:
    return Member(spec, client, SlotWriter(incarnation_folder(spec)))


MEMBERS: dict[Discipline, Callable[[MemberSpec, MemberConsumer], Member]] = {
    "at_handover": _into_slots,
    "commit_first": _into_slots,
    "commit_after": _into_slots,
    "store_after": _into_slots,
    "transform_first": Transform,
    "transform": Transform,
    "transform_transactional": Transform,
    "transform_assigned": Transform,
    "transform_fenced": Transform,
    "database_apart": DatabaseMember,
    "database_together": DatabaseMember,
    "database_compared": DatabaseMember,
}
"""Maps each discipline to a function that returns one incarnation of a member with this discipline."""


def main() -> int:
    """Runs one member. Returns the exit code of the process:

    * 0: the member was stopped in an orderly way.
    * 1: the client refused the settings.
    * 3: the client had a fatal error.
    * 4: it is unknown whether a commit before the effects was accepted, or whether records reached the output topic.
    * 5: another member has moved the offset in the database (only with the discipline `database_compared`).
    * 6: another process with the same transactional.id has fenced the member.
    """
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=MemberSpec)
    if spec.client == "librdkafka":
        wheels.require_imported(spec.client_version)
    try:
        client = consumer_of(spec)
    except KafkaException as error:
        print(f"consumer settings refused: {error.args[0].str()}", file=sys.stderr)
        return 1
    member = MEMBERS[spec.discipline](spec, client)
    signal.signal(signal.SIGTERM, lambda *_: member.stop())
    try:
        member.run()
    except (KafkaException, SystemError) as raised:
        said = fatal_error(raised) or (raised.args[0] if isinstance(raised, KafkaException) else None)
        if said is None:
            raise
        print(f"fatal client error: {error_text(said)}", file=sys.stderr)
        if said.code() != KafkaError._FENCED:
            return 3
        member.journal.note("fenced", answer=said.name())
        return FENCED
    except (CommitUnknown, OutputFailed) as error:
        print(error, file=sys.stderr)
        return 4
    except OffsetMoved as error:
        print(error, file=sys.stderr)
        member.journal.note("fenced", answer="offset moved")
        return OFFSET_MOVED
    finally:
        # Python takes its own handlers away before the process ends, so a late SIGTERM would hide the exit code.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return 0


if __name__ == "__main__":
    sys.exit(main())
