"""The fault gateway in a thread, and as a process of its own, as docker-compose.yml starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import uvicorn

from delivery_verifier.cluster.docker.engine import Engine
from delivery_verifier.cluster.docker.gateway import app
from delivery_verifier.cluster.docker.gateway_client import GatewayClient
from delivery_verifier.host.http_clients import client_of
from delivery_verifier.host.ports import free_ports
from delivery_verifier.host.waiting import wait_until
from support.fake_engine import served
from support.patience import PATIENCE_S

TOKEN = "a token for the tests alone"


class Gateway:
    """A gateway before the engine at `engine`. `port`: where it listens, the same after a new start."""

    def __init__(self, engine: Path, project: str) -> None:
        self._engine, self._project = engine, project
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a task finds the gateway."""
        return {"KDV_GATEWAY_URL": self.url, "KDV_GATEWAY_TOKEN": TOKEN}

    def client(self, token: str = TOKEN, answer_s: float = 30.0) -> GatewayClient:
        """A client of the gateway."""
        return GatewayClient(self.url, token, answer_s)


class GatewayProcess(Gateway):
    """A gateway as a process, which a test may kill and start again."""

    def start(self) -> None:
        """Starts the gateway, and waits until it listens."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "delivery_verifier.cluster.docker.gateway"],
            env={
                **os.environ,
                "KDV_GATEWAY_TOKEN": TOKEN,
                "KDV_GATEWAY_PROJECT": self._project,
                "KDV_GATEWAY_ENGINE": str(self._engine),
                "KDV_GATEWAY_PORT": str(self.port),
            },
        )
        wait_until(self._listens, "the gateway to listen", PATIENCE_S)

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the gateway. After SIGKILL, waits for its end."""
        self._process.send_signal(number)
        if number == signal.SIGKILL:
            self._process.wait()

    def end(self) -> None:
        """Ends the gateway, even if it is frozen."""
        self._process.kill()
        self._process.wait()

    def _listens(self) -> bool:
        assert self._process.poll() is None, "the gateway ended"
        try:
            with client_of(self.url, timeout=5) as http:
                return http.get("/health").status_code == 200
        except httpx.HTTPError:
            return False


@contextmanager
def gateway_process(engine: Path, project: str) -> Iterator[GatewayProcess]:
    """Yields a gateway that ends with the block."""
    gateway = GatewayProcess(engine, project)
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.end()


@contextmanager
def gateway_thread(engine: Path, project: str) -> Iterator[Gateway]:
    """Yields a gateway that a thread of this process serves during the block."""
    gateway = Gateway(engine, project)
    web = app(Engine(engine, project), TOKEN)
    with served(uvicorn.Config(web, host="127.0.0.1", port=gateway.port, log_level="warning")):
        yield gateway
