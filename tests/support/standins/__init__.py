"""Stand-ins for official images, for hosts that reach no registry: a Debian with the same paths and users."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from delivery_verifier.host.java.jars import kafka_jars
from support.engine import Engine, Missing

HERE = Path(__file__).parent
BASE = "kdv-standin-base"
CERTIFICATES = Path("/usr/local/share/ca-certificates")
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
MIRROR = "http://deb.debian.org/debian"


def build(engine: Engine, compose: list[str], images: Mapping[str, str], kafka_version: str) -> None:
    """Builds a stand-in for each service of `images` (kafka, postgres, airflow), under the name that it has there.

    Raises Missing if the base cannot be made, and CalledProcessError if an image cannot be built.
    """
    with tempfile.TemporaryDirectory(prefix="kdv-standins-") as folder:
        _import_base(engine, Path(folder) / "base")
        context = Path(folder) / "context"
        shutil.copytree(HERE, context)
        (context / "jars").mkdir()
        for jar in kafka_jars(kafka_version):
            shutil.copy(jar, context / "jars")
        names = {f"{service.upper()}_IMAGE": image for service, image in images.items()}
        command = [*compose, "--file", str(HERE / "compose.yml"), "build", "--quiet", *images]
        subprocess.run(command, env=engine.environment | names | {"CONTEXT": str(context)}, check=True)


def _import_base(engine: Engine, root: Path) -> None:
    """Makes a small Debian with the host's own certificates, and imports it as the image BASE."""
    command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", str(root), MIRROR]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise Missing(f"no registry answers, and no base image can be made: {result.stdout[-300:]}")
    if CERTIFICATES.is_dir():
        shutil.copytree(CERTIFICATES, root / CERTIFICATES.relative_to("/"), dirs_exist_ok=True)
    subprocess.run(["chroot", str(root), "update-ca-certificates"], capture_output=True, check=True)
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    variables = f"ENV PATH={path} PIP_CERT={BUNDLE} SSL_CERT_FILE={BUNDLE} REQUESTS_CA_BUNDLE={BUNDLE}"
    archive = subprocess.Popen(["tar", "-C", str(root), "--numeric-owner", "-c", "."], stdout=subprocess.PIPE)
    importing = ["docker", "import", "-c", 'CMD ["bash"]', "-c", variables, "-", BASE]
    subprocess.run(importing, env=engine.environment, stdin=archive.stdout, stdout=subprocess.DEVNULL, check=True)
    if archive.wait():
        raise Missing("no registry answers, and the base image cannot be packed")
