"""The command `kdv init`, which makes a profile from the settings of the user's own producer."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from delivery_verifier.command_line import options
from delivery_verifier.command_line.parsers import Add
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Profile
from delivery_verifier.planning.choices import OWN
from delivery_verifier.planning.request import FIELDS

_EXAMPLES = """examples:
  kdv init                               asks five questions
  kdv init application.yml               takes what Spring Boot gives its producer
  kdv init connect-distributed.properties
  kdv init producer.properties --topic-config topic.properties --name orders
"""


class Question(NamedTuple):
    """One question about a setting. `text`: the question, with a hint on what the setting does. `default`: the answer
    if the user gives none."""

    setting: str
    text: str
    choices: tuple[str, ...]
    default: str


QUESTIONS = (
    Question("acks", "acks: which brokers must have a record before it counts as sent?", ("0", "1", "all"), "all"),
    Question("enable.idempotence", "enable.idempotence: do brokers drop copies?", ("true", "false"), "true"),
    Question("retries", "retries: how often does the client send a failed record again?", (), "2147483647"),
    Question("min.insync.replicas", "min.insync.replicas of the topic: how many replicas need a record?", (), "1"),
)
"""The questions about settings, in the order in which they are asked. An earlier question, which asks for the client,
is not in this list."""
_OF_TOPIC = frozenset({"min.insync.replicas"})


def register(add: Add) -> None:
    """Adds `kdv init` to the command line by a call of `add` (see `parsers.Add`)."""
    text = "Make a profile from your own producer's settings: from a file, or by five questions."
    sub = add("init", init, text, epilog=_EXAMPLES)
    sub.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="producer settings, see docs/settings.md: .properties, application.yml ...",
    )
    sub.add_argument("--topic-config", **options.FILES["producer_config"]["topic_config"])
    sub.add_argument("--written-for", **FIELDS["written_for"].argument)
    sub.add_argument("--name", metavar="NAME", help="name of the profile (default: from the file's name, or mine)")


def init(arguments: argparse.Namespace) -> int:
    """Carries out `kdv init`: saves the profile, and prints which commands use it. Returns 0.

    Raises BadInput if a setting or the name is refused. Also raises BadInput if the user names no file, and there is no
    terminal to ask the user in.
    """
    from delivery_verifier.planning import client_versions
    from delivery_verifier.planning.consistency import check_settings
    from delivery_verifier.planning.own_settings import profiles

    if arguments.file is None:
        profile = _asked()
    else:
        profile = profiles.from_files(None, arguments.file, arguments.topic_config, None, arguments.written_for)
    check_settings(profile)
    saved = profiles.save(profile, arguments.name or _name(arguments.file))
    for note in filter(None, (*saved.notes, client_versions.remark(saved))):
        print(note)
    print(f"saved      {profiles.folder() / saved.name}.json")
    print(f"explain    kdv explain --profile {saved.name}")
    print(f"verify     kdv run --profile {saved.name}")
    return 0


def _name(file: str | None) -> str:
    """Returns a name for the profile: the name of the file without its suffix, with a hyphen in place of each character
    that a profile's name may not have. Returns `mine` if `file` is None."""
    stem = re.sub(r"[^A-Za-z0-9_.-]", "-", Path(file).stem) if file else "mine"
    return stem if stem[:1].isalnum() else f"my-{stem}"


def _asked() -> Profile:
    """Asks the user for the settings, and returns a profile with these settings. Raises BadInput if there is no
    terminal to ask in, or if an answer is refused."""
    if not sys.stdin.isatty():
        raise BadInput("FILE is missing, and there is no terminal to ask in: kdv init application.yml")
    from rich.prompt import Prompt

    from delivery_verifier import catalogue
    from delivery_verifier.planning.own_settings import clients, producer, profiles, topic

    which = "client: which Kafka client do you use, and which version? java:3.1, librdkafka:1.9, or without a version"
    client = clients.parse(Prompt.ask(which, default="java"))
    answers = {
        question.setting: Prompt.ask(question.text, choices=[*question.choices] or None, default=question.default)
        for question in QUESTIONS
    }
    of_producer = {name: value for name, value in answers.items() if name not in _OF_TOPIC}
    of_topic = {name: value for name, value in answers.items() if name in _OF_TOPIC}
    base = replace(catalogue.PROFILES["safe"], notes=())
    profile = profiles.of_client(base, producer.translate(of_producer, client.client), client, of_producer)
    topics = topic.with_defaults(topic.translate(of_topic))
    return replace(
        profile,
        name=OWN,
        summary="Settings from the answers to kdv init.",
        topic=topics.settings,
        notes=(*profile.notes, *topics.lines()),
    )
