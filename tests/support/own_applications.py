"""Own applications for tests: small programs that consume with confluent-kafka, and the TOML files that name them."""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec.structs import replace

from delivery_verifier.model.application import Application
from delivery_verifier.model.scenario import Scenario
from support.evidence import RUN

CONSUMER = """
import os, signal, sys, time
from confluent_kafka import Consumer
print("hello from", os.getcwd(), os.environ.get("SINK_DSN"), file=sys.stderr, flush=True)
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
consumer = Consumer({"bootstrap.servers": os.environ["KDV_BOOTSTRAP_SERVERS"], "group.id": os.environ["KDV_GROUP"],
                     "auto.offset.reset": "earliest", "enable.auto.commit": False, "session.timeout.ms": 6000})
consumer.subscribe([os.environ["KDV_TOPIC"]])
out = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
while not stop:
    for message in consumer.consume(100, 0.1):
        if message.error() is None:
            value = message.value()[: int(sys.argv[2])]
            os.write(out, b'{"value": "%s"}\\n' % value)
            consumer.commit(message=message, asynchronous=False)
consumer.close()
"""
"""A consumer that writes each record to the file argv[1], cut after argv[2] bytes, and then commits it."""
SECRET = "hunter2-hunter2"
"""The password of the DSN that `toml` plants."""


def toml(folder: Path, command: str, *lines: str) -> None:
    """Writes the own application `sink` to `folder`, with the DSN of a database in its environment."""
    folder.mkdir(parents=True, exist_ok=True)
    dsn = f'[environment]\nSINK_DSN = "postgresql://sink:{SECRET}@db/sink"\n'
    (folder / "sink.toml").write_text("\n".join([f"command = '''{command}'''", *lines, dsn]))


def consumer(folder: Path, length: int = 1000) -> None:
    """Writes `sink`: the consumer CONSUMER, which cuts values after `length` bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "consumer.py").write_text(CONSUMER)
    command = f"{sys.executable} {{home}}/consumer.py {{folder}}/out.jsonl {length}"
    toml(folder, command, "[effects]", 'where = "{folder}/out.jsonl"')


def scenario(members: int = 1) -> Scenario:
    """Returns a scenario of which the first arm has the own application `sink`."""
    own = Application(name="sink", summary="", discipline="own", consumer={}, members=members)
    return replace(RUN, arms=(replace(RUN.subjects[0], application=own), RUN.canary))
