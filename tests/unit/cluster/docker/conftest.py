"""A fake engine, and the fault gateway before it: in a thread, or as a process that a test may kill."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.fake_engine import PROJECT, FakeEngine
from support.gateways import Gateway, GatewayProcess, gateway_process, gateway_thread

from delivery_verifier.cluster.docker import leases


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> FakeEngine:
    """The engine. A parameter is the oldest version of the API that it speaks."""
    return FakeEngine(getattr(request, "param", "1.12"))


@pytest.fixture
def engine_socket(engine: FakeEngine) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "docker.sock"
        with engine.serve(socket):
            yield socket


@pytest.fixture
def gateway(engine_socket: Path) -> Iterator[Gateway]:
    with gateway_thread(engine_socket, PROJECT) as gateway:
        yield gateway


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Puts the clock of the gateway in this process forward by some seconds. The gateway ends leases by this clock."""
    ahead = [0.0]
    monkeypatch.setattr(leases, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + sum(ahead)))
    return ahead.append


@pytest.fixture
def own_gateway(engine_socket: Path) -> Iterator[GatewayProcess]:
    with gateway_process(engine_socket, PROJECT) as gateway:
        yield gateway
