"""Stand-ins for official images, for hosts that reach no registry: a Debian with the same paths and users."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from delivery_verifier.host.java.jars import kafka_jars
from support.engine import TOOLS, Engine, Missing

HERE = Path(__file__).parent
BASE = "kdv-standin-base"
CERTIFICATES = Path("/usr/local/share/ca-certificates")
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
UNNAMED = {f"{service}_IMAGE": "unnamed" for service in ("KAFKA", "POSTGRES", "AIRFLOW")}
"""Compose wants a name for each image of compose.yml, also if it does not build that image."""
MIRROR = "http://deb.debian.org/debian"


@contextmanager
def builder(engine: Engine, compose: list[str], kafka_version: str) -> Iterator[Callable[[str, str], None]]:
    """Imports the base, and yields a function that builds one stand-in: it takes the service (kafka, postgres or
    airflow) and the name of the image. Several stand-ins may be built at the same time.

    Raises Missing if the base cannot be made. The function raises CalledProcessError if the image cannot be built.
    """
    with tempfile.TemporaryDirectory(prefix="kdv-standins-") as folder:
        _import_base(engine, _base_archive(Path(folder) / "base"))
        context = Path(folder) / "context"
        shutil.copytree(HERE, context)
        (context / "jars").mkdir()
        for jar in kafka_jars(kafka_version):
            shutil.copy(jar, context / "jars")
        command = [*compose, "--file", str(HERE / "compose.yml"), "build", "--quiet"]

        def build(service: str, image: str) -> None:
            names = {"CONTEXT": str(context), f"{service.upper()}_IMAGE": image}
            subprocess.run([*command, service], env=engine.environment | UNNAMED | names, check=True)

        yield build


def _base_archive(root: Path) -> Path:
    """Returns the archive of a small Debian with the host's own certificates. Makes it at the first call on this host,
    in the folder `root`. Raises Missing if it cannot be made."""
    certificates = sorted(CERTIFICATES.rglob("*.crt")) if CERTIFICATES.is_dir() else []
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in certificates)).hexdigest()[:12]
    archive = TOOLS / f"bookworm-{digest}.tar"
    if archive.is_file():
        return archive
    command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", str(root), MIRROR]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise Missing(f"no registry answers, and no base image can be made: {result.stdout[-300:]}")
    if CERTIFICATES.is_dir():
        shutil.copytree(CERTIFICATES, root / CERTIFICATES.relative_to("/"), dirs_exist_ok=True)
    subprocess.run(["chroot", str(root), "update-ca-certificates"], capture_output=True, check=True)
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_name(f"{archive.name}.{os.getpid()}")
    packing = ["tar", "-C", str(root), "--numeric-owner", "-cf", str(partial), "."]
    if subprocess.run(packing, check=False).returncode:
        raise Missing("no registry answers, and the base image cannot be packed")
    os.replace(partial, archive)
    return archive


def _import_base(engine: Engine, archive: Path) -> None:
    """Imports the archive of a Debian as the image BASE."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    variables = f"ENV PATH={path} PIP_CERT={BUNDLE} SSL_CERT_FILE={BUNDLE} REQUESTS_CA_BUNDLE={BUNDLE}"
    importing = ["docker", "import", "-c", 'CMD ["bash"]', "-c", variables, str(archive), BASE]
    subprocess.run(importing, env=engine.environment, stdout=subprocess.DEVNULL, check=True)
