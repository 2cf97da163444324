"""A web server on the loopback interface, which keeps the requests that it receives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from support.serving import serving


class Received(NamedTuple):
    """A request: its path, its headers and its body."""

    path: str
    headers: dict[str, str]
    body: str


class WebSink(ThreadingHTTPServer):
    """A web server on a free port, which answers `status`. `received` are the requests, oldest first."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[Received] = []
        self.status = 200

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    server: WebSink

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.server.received.append(Received(self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")  # what Slack answers

    def log_message(self, format: str, *args: object) -> None:
        """Writes nothing."""


@contextmanager
def web_sink() -> Iterator[WebSink]:
    """Yields a web server that serves until the block ends."""
    with serving(WebSink()) as server:
        yield server
