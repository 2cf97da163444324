"""A container engine and Compose for tests: those of the host or, if there are none, own ones that a test brings along.

An own engine is Debian's docker.io with a data folder of its own. Compose is the binary of Debian's package
docker-compose. It is fetched once into .kdv/tools, and its checksum is verified.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import platform
import shutil
import signal
import subprocess
import tarfile
import time
import urllib.request
from pathlib import Path

import psutil

from support.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".kdv" / "tools"
COMPOSE = "docker-compose_2.26.1-4"
POOL = "http://deb.debian.org/debian/pool/main/d/docker-compose"
DIGESTS = {
    "x86_64": ("amd64", "47681197cb2b1ab88206b42a1a92fc75f50d9530a6322d03494a473eed0408ea"),
    "aarch64": ("arm64", "bbafaa666f3e7fa00ad36f2a8bab889f1c791ca8743d674e7267a3d07203869c"),
}
"""Debian's name and the SHA-256 of the package, by the machine's own name."""
MEMBER = "./usr/libexec/docker/cli-plugins/docker-compose"


class Missing(Exception):
    """This host lacks what the tests need. The message says what, and why it cannot be had."""


def compose() -> list[str]:
    """Returns the command of Compose v2: `docker compose` if the host has it, else the fetched binary. Raises Missing
    if it can neither be found nor fetched."""
    plugin = ["docker", "compose"]
    if (
        shutil.which("docker")
        and subprocess.run([*plugin, "version"], capture_output=True, check=False).returncode == 0
    ):
        return plugin
    file = TOOLS / COMPOSE
    if not file.is_file():
        _fetch(file)
    return [str(file)]


def _fetch(file: Path) -> None:
    """Fetches Debian's package, and writes its program to `file`."""
    if platform.machine() not in DIGESTS or platform.system() != "Linux":
        raise Missing(f"no Docker Compose: install it ({platform.machine()} has none to fetch)")
    machine, digest = DIGESTS[platform.machine()]
    url = f"{POOL}/{COMPOSE}_{machine}.deb"
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            package = answer.read()
    except OSError as error:
        raise Missing(f"no Docker Compose: install it (it cannot be fetched from {url}: {error})") from error
    actual = hashlib.sha256(package).hexdigest()
    if actual != digest:
        raise ValueError(f"{url} has SHA-256 {actual}, expected {digest}: refused")
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(_member(package, b"data.tar.xz")))) as archive:
        program = archive.extractfile(MEMBER)
        assert program is not None, f"{url} has no {MEMBER}"
        content = program.read()
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.chmod(0o755)
    os.replace(partial, file)


def _member(package: bytes, name: bytes) -> bytes:
    """Returns the content of one member of a Debian package, which is an ar archive: each member has a header of 60
    bytes with its name first and its size in bytes 48 to 57, and begins at an even offset."""
    offset = len(b"!<arch>\n")
    while offset < len(package):
        header = package[offset : offset + 60]
        size = int(header[48:58])
        if header[:16].rstrip(b" /") == name:
            return package[offset + 60 : offset + 60 + size]
        offset += 60 + size + size % 2
    raise ValueError(f"the package has no {name!r}")


class Engine:
    """A running engine. `host` is its DOCKER_HOST. `own` is whether this process started it, so that it may end it."""

    def __init__(self, host: str, data: Path | None = None, process: subprocess.Popen[bytes] | None = None) -> None:
        self.host, self._data, self._process = host, data, process
        self.own = process is not None
        self.environment = os.environ | {"DOCKER_HOST": host}

    @property
    def socket(self) -> str:
        """The path of the engine's socket."""
        return self.host.removeprefix("unix://")

    def docker(self, *arguments: str, within_s: float | None = None) -> str:
        """Returns what `docker` prints. Raises CalledProcessError if it fails."""
        command = ["docker", *arguments]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=True, timeout=within_s
        ).stdout

    def has_image(self, name: str) -> bool:
        """Whether the engine has the image, or a registry gives it."""
        try:
            self.docker("image", "inspect", name)
            return True
        except subprocess.CalledProcessError:
            pass
        try:
            self.docker("pull", "--quiet", name, within_s=600)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return False
        return True

    def end(self) -> None:
        """Ends an own engine, and removes its data. Does nothing to an engine of the host."""
        if self._process is None or self._data is None:
            return
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_S)
        subprocess.run(["ip", "link", "delete", "docker0"], capture_output=True, check=False)
        remove(self._data)


def remove(folder: Path) -> None:
    """Removes a folder. First unmounts whatever is mounted in the folder, e.g. the networks of containers that were
    never stopped, because the tests were ended halfway. Raises CalledProcessError if a mount stays."""
    mounted = [part.mountpoint for part in psutil.disk_partitions(all=True)]
    for place in sorted((place for place in mounted if Path(place).is_relative_to(folder)), reverse=True):
        subprocess.run(["umount", "--lazy", place], capture_output=True, check=True)
    shutil.rmtree(folder)


def find_or_start(folder: Path) -> Engine:
    """Returns the engine of DOCKER_HOST, that of the host, or an own one with its data in `folder`. Raises Missing if
    none runs and none can be started."""
    for host in filter(None, (os.environ.get("DOCKER_HOST"), "unix:///var/run/docker.sock")):
        if _answers(host):
            return Engine(host)
    if os.geteuid():
        raise Missing("no engine answers, and only root can start one")
    _install()
    return _start(folder)


def _answers(host: str) -> bool:
    if shutil.which("docker") is None:
        return False
    command, environment = ["docker", "version"], os.environ | {"DOCKER_HOST": host}
    return subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60).returncode == 0


def _install() -> None:
    """Installs Debian's engine, its client, and what makes a base image, if they are missing."""
    programs = {"dockerd": "docker.io", "docker": "docker-cli", "debootstrap": "debootstrap", "iptables": "iptables"}
    packages = {package for program, package in programs.items() if shutil.which(program) is None}
    if not packages:
        return
    if shutil.which("apt-get") is None:
        raise Missing(f"no engine, and no apt-get to install {', '.join(sorted(packages))}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends"]
    if "docker-cli" in packages:  # a package of its own only in newer Debians
        policy = subprocess.run(
            ["apt-cache", "policy", "docker-cli"], capture_output=True, text=True, check=False
        ).stdout
        packages = (
            packages
            if "Candidate: " in policy and "(none)" not in policy
            else packages - {"docker-cli"} | {"docker.io"}
        )
    for command in (["apt-get", "update", "--quiet"], [*install, *sorted(packages)]):
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if result.returncode:
            raise Missing(f"no engine, and {' '.join(command)} failed: {(result.stderr or result.stdout)[-300:]}")


def _start(folder: Path) -> Engine:
    """Starts dockerd, and waits until it answers. Raises Missing with its last lines if it does not."""
    folder.mkdir(parents=True, exist_ok=True)
    socket, log = folder / "docker.sock", folder / "dockerd.log"
    command = ["dockerd", "--host", f"unix://{socket}", "--data-root", str(folder / "data")]
    command += ["--exec-root", str(folder / "exec"), "--pidfile", str(folder / "docker.pid")]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    engine, deadline = Engine(f"unix://{socket}", folder, process), time.monotonic() + PATIENCE_S
    while not _answers(engine.host):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise Missing(f"no engine can start here: {' '.join(log.read_text(errors='replace').splitlines()[-3:])}")
        time.sleep(0.5)
    return engine
