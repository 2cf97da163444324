"""Ledgers and topics that somebody else wrote, with planted cases. What is planted is known exactly."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from support.patience import PATIENCE_S

Row = dict[str, Any]
HEADER = "order-id"


class ForeignApplication:
    """Writes records with a header HEADER to a topic, and its own ledger.

    `rows` is the ledger: one row per attempt, with the offsets that the broker acknowledged.
    """

    def __init__(self, servers: str, topic: str, **settings: str) -> None:
        self.topic, self.rows, self._number = topic, list[Row](), 0
        self.client = Producer(
            {"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True, "linger.ms": 5, **settings}
        )

    def write(self, name: str | None, partition: int = 0, value: bytes | None = None) -> tuple[int, bytes]:
        """Writes a record with this id. Returns its offset, and its value."""
        offsets: list[int] = []
        body = value if value is not None else b'{"order": "%s"}' % str(name).encode()
        headers = [] if name is None else [(HEADER, name.encode())]
        self.client.produce(
            self.topic,
            body,
            partition=partition,
            headers=headers,
            on_delivery=lambda _, told: offsets.append(told.offset()),
        )
        assert self.client.flush(PATIENCE_S) == 0
        return offsets[0], body

    def write_many(self, names: list[str], partition: int = 0) -> None:
        """Writes records, and claims them as they were acknowledged."""
        told: dict[str, int] = {}
        for name in names:
            self.client.produce(
                self.topic,
                b'{"order": "%s"}' % name.encode(),
                partition=partition,
                headers=[(HEADER, name.encode())],
                on_delivery=lambda _, message, name=name: told.__setitem__(name, message.offset()),
            )
            self.client.poll(0)
        assert self.client.flush(PATIENCE_S) == 0
        for name in names:
            self.claim(name, partition, told[name], b'{"order": "%s"}' % name.encode())

    def claim(
        self, name: str, partition: int | None, offset: int | None, value: bytes = b"", outcome: str = "acked"
    ) -> Row:
        """Adds a row to the ledger. Its number in the order of sending is the next one."""
        row = {
            "outcome": outcome,
            "id": name,
            "producer": "shop",
            "sequence": self._number,
            "partition": partition,
            "offset": offset,
            "value_crc32": zlib.crc32(value),
        }
        self._number += 1
        self.rows.append(row)
        return row


def as_json_lines(file: Path, rows: list[Row], **head: object) -> Path:
    """Writes a ledger as JSON lines. `head`: the fields of its first line beside the version. If it is
    complete, it has a last line that says so."""
    lines = [
        {"kdv_ledger": 1, **head},
        *({name: value for name, value in row.items() if value is not None} for row in rows),
        *([{"kdv_ledger_end": 1, "attempts": len(rows)}] if head.get("complete") else ()),
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def planted(
    servers: str, topic: str, sound: int = 400, settings: Mapping[str, str] | None = None
) -> ForeignApplication:
    """Writes `sound` sound records to two partitions, and plants: 3 LOST, 3 DUPLICATED, 2 MISPLACED, 1 PHANTOM, 1
    REORDERED (a swapped pair), two acknowledgements of one offset (one of them LOST), and 1 record of a foreign
    writer. `settings`: properties of the client, e.g. how it connects."""
    application = ForeignApplication(servers, topic, **(settings or {}))
    application.write_many([f"order-{number}" for number in range(sound // 2)])
    application.write_many([f"order-{number}" for number in range(sound // 2, sound)], partition=1)
    copies = []
    for number in range(3):
        offset, value = application.write(f"twice-{number}")
        application.claim(f"twice-{number}", 0, offset, value)
        copies.append(application.write(f"twice-{number}")[0])
    phantom, _ = application.write("phantom")
    foreign_writer, _ = application.write(None, value=b"hello")
    for number, elsewhere in enumerate((phantom, foreign_writer)):
        _, value = application.write(f"misplaced-{number}")
        application.claim(f"misplaced-{number}", 0, elsewhere, value)
    for number, elsewhere in enumerate((copies[0], copies[1], application.rows[5]["offset"])):
        application.claim(f"lost-{number}", 0, elsewhere)
    late, late_value = application.write("swapped-1")
    early, early_value = application.write("swapped-0")
    application.claim("swapped-0", 0, early, early_value)
    application.claim("swapped-1", 0, late, late_value)
    return application
