"""A mail server on the loopback interface, which keeps the mails that it receives."""

from __future__ import annotations

import email
import json
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message

from support.serving import serving


class _Session(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(b"220 sink\r\n")
        while line := self.rfile.readline():
            match line[:4].upper():
                case b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    text = b"".join(iter(self.rfile.readline, b".\r\n"))
                    self.server.mails.append(email.message_from_bytes(text))  # type: ignore[attr-defined]
                    self.wfile.write(b"250 taken\r\n")
                case b"QUIT":
                    self.wfile.write(b"221 bye\r\n")
                    return
                case _:
                    self.wfile.write(b"250 well\r\n")


class Sink(socketserver.ThreadingTCPServer):
    """A mail server on a free port. `mails` are the received mails, oldest first."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.mails: list[Message] = []

    @property
    def connection(self) -> str:
        """The Airflow connection to this server, as JSON."""
        extra = {"disable_ssl": True, "disable_tls": True, "from_email": "kdv@localhost", "retry_limit": 1}
        where = {"conn_type": "smtp", "host": "127.0.0.1", "port": self.server_address[1], "password": "not-to-be-told"}
        return json.dumps({**where, "login": "", "extra": extra})

    def about(self, run_id: str) -> list[str]:
        """Returns subject and text of each mail about the run `run_id`."""
        return [text for text in map(_text, self.mails) if run_id in text]


def _text(mail: Message) -> str:
    parts = [part.get_payload(decode=True) for part in mail.walk() if not part.is_multipart()]
    return "\n".join([str(mail["Subject"]), *(part.decode() for part in parts if isinstance(part, bytes))])


@contextmanager
def sink() -> Iterator[Sink]:
    """Yields a mail server that serves until the block ends."""
    with serving(Sink()) as server:
        yield server
