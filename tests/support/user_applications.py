"""User applications for tests: small programs that consume with confluent-kafka, and the TOML files that name them."""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec.structs import replace

from delivery_verifier.model.application import Application
from delivery_verifier.model.scenario import Scenario
from support.evidence import RUN

CONSUMER = """
import os, signal, sys, time
from confluent_kafka import Consumer, KafkaError, KafkaException
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
LOADER = """
import os, signal, sqlite3, time
from urllib.parse import unquote
from confluent_kafka import Consumer, KafkaError, KafkaException
print("hello with", os.environ["ORDERS_DSN"], os.environ["SINK_DSN"], flush=True)
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
database = sqlite3.connect(unquote(os.environ["ORDERS_DSN"].removeprefix("sqlite://")), timeout=30)
database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF")
database.execute("CREATE TABLE IF NOT EXISTS orders(payload BLOB)")
consumer = Consumer({"bootstrap.servers": os.environ["KDV_BOOTSTRAP_SERVERS"], "group.id": os.environ["KDV_GROUP"],
                     "auto.offset.reset": "earliest", "enable.auto.commit": False, "session.timeout.ms": 6000})
consumer.subscribe([os.environ["KDV_TOPIC"]])
applied, committed_s = 0, time.monotonic()
while not stop:
    for message in consumer.consume(20, 0.1):
        if message.error() is None:
            database.execute("INSERT INTO orders VALUES (?)", (message.value(),))
            database.commit()
            applied += 1
    if applied and time.monotonic() - committed_s > 1:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:  # a rebalance took the partitions since the last record
                raise
        applied, committed_s = 0, time.monotonic()
consumer.close()
"""
"""A consumer that writes each record to a table of SQLite, and commits once a second."""
FORWARDER = """
import os, signal, time
from confluent_kafka import Consumer, Producer
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
consumer = Consumer({"bootstrap.servers": os.environ["KDV_BOOTSTRAP_SERVERS"], "group.id": os.environ["KDV_GROUP"],
                     "auto.offset.reset": "earliest", "enable.auto.commit": False, "session.timeout.ms": 6000})
consumer.subscribe([os.environ["KDV_TOPIC"]])
producer = Producer({"bootstrap.servers": os.environ["KDV_BOOTSTRAP_SERVERS"], "acks": "all", "linger.ms": 0})
while not stop:
    messages = [message for message in consumer.consume(50, 0.1) if message.error() is None]
    if messages:
        consumer.commit(asynchronous=False)
    for message in messages:
        producer.produce(os.environ["KDV_OUTPUT_TOPIC"], b"forwarded", message.value()[:60])
        producer.flush()
consumer.close()
"""
"""A consumer that commits its records, and then writes the header of each as the key of a record of the output topic:
what it has committed and not written in a kill is lost."""
SECRET = "hunter2-hunter2"
"""The password of the DSN that `toml` plants."""


def toml(folder: Path, command: str, *lines: str) -> None:
    """Writes the user application `sink` to `folder`, with the DSN of a database in its environment."""
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
    """Returns a scenario of which the first arm has the user application `sink`."""
    own = Application(name="sink", summary="", discipline="own", consumer={}, members=members)
    return replace(RUN, arms=(replace(RUN.subjects[0], application=own), RUN.canary))


def program(folder: Path, name: str, text: str, *effects: str, members: int = 1, **environment: str) -> None:
    """Writes the user application `name` to `folder`: a Python program with `text`, and the fields `effects`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(text)
    variables = {"SINK_DSN": f"postgresql://sink:{SECRET}@db/sink", **environment}
    command = f"command = '''{sys.executable} {{home}}/{name}.py'''"
    lines = [command, f"members = {members}", "[effects]", *effects, "[environment]"]
    lines += [f'{variable} = "{value}"' for variable, value in variables.items()]
    (folder / f"{name}.toml").write_text("\n".join(lines) + "\n")


LOADED = ('kind = "table"', 'where = "ORDERS_DSN"', 'table = "orders"', 'column = "payload"')
"""The place of the effects of LOADER."""


def loader(folder: Path) -> None:
    """Writes `loader`, whose two members have their rows in the table `orders` of a database in `folder`."""
    program(folder, "loader", LOADER, *LOADED, members=2, ORDERS_DSN=f"sqlite:///{folder}/orders.sqlite")


def forwarder(folder: Path) -> None:
    """Writes `forwarder`, whose two members have their effects in the keys of an output topic."""
    program(folder, "forwarder", FORWARDER, 'kind = "topic"', 'identity = "header"', 'column = "key"', members=2)
