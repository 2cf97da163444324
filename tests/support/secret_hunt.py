"""A hunt for secrets wherever a run could leave them: files, the pages and answers of Spark's UI, and processes."""

from __future__ import annotations

import base64
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urljoin, urlsplit

import httpx

from support.patience import PATIENCE_S

LOOK_EVERY_S = 0.5
MOST_PAGES = 400
_LINK = re.compile(r"""(?:href|src)=["']([^"'#]+)["']""")


def forms(secret: str) -> set[bytes]:
    """The forms in which `secret` may stand somewhere: as it is, in a URL, in Base64."""
    plain = secret.encode()
    return {plain, quote(secret).encode(), base64.b64encode(plain).rstrip(b"=")[: len(plain)]}


def in_text(text: bytes, secrets: Iterable[str]) -> list[str]:
    """The secrets that stand in `text`."""
    return [secret for secret in secrets if any(form in text for form in forms(secret))]


def in_files(folders: Iterable[Path], secrets: Sequence[str]) -> list[str]:
    """Where the secrets stand in files below `folders`, and in the files' names."""
    return [
        f"{secret} in {file}"
        for folder in folders
        for file in folder.rglob("*")
        if file.is_file()
        for secret in in_text(str(file).encode() + file.read_bytes(), secrets)
    ]


def in_ui(root: str, secrets: Sequence[str]) -> tuple[list[str], set[str]]:
    """Where the secrets stand in Spark's pages and REST answers at `root`. Also returns the paths that were read."""
    api = f"{root}/api/v1/applications"
    (application,) = httpx.get(api, timeout=PATIENCE_S, trust_env=False).json()
    answers = ("environment", "jobs", "stages?details=true", "sql?details=true&planDescription=true", "executors")
    waiting = deque([f"{root}/connect/", f"{root}/", *(f"{api}/{application['id']}/{answer}" for answer in answers)])
    read, found = set[str](), list[str]()
    while waiting and len(read) < MOST_PAGES:
        url = waiting.popleft()
        parts = urlsplit(url)
        if url in read or "kill" in parts.path or "static" in parts.path:
            continue
        read.add(url)
        page = httpx.get(url, timeout=PATIENCE_S, trust_env=False, follow_redirects=True)
        found += [f"{secret} in {url}" for secret in in_text(page.content, secrets)]
        links = (urljoin(url, link.replace("&amp;", "&")) for link in _LINK.findall(page.text))
        waiting.extend(link for link in links if urlsplit(link).netloc == parts.netloc)
    return found, {urlsplit(url).path for url in read}


def in_processes(secrets: Sequence[str]) -> set[str]:
    """Where the secrets stand in the command lines and environments of all processes, now."""
    found = set[str]()
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                text = (process / name).read_bytes()
            except OSError:  # it has ended, or is another user's
                continue
            found |= {f"{secret} in {process / name}" for secret in in_text(text, secrets)}
    return found


@contextmanager
def watching_processes(secrets: Sequence[str]) -> Iterator[set[str]]:
    """Yields a set that receives where `in_processes` finds the secrets, while the block runs."""
    found, over = set[str](), threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_EVERY_S):
            found.update(in_processes(secrets))

    watcher = threading.Thread(target=watch, name="hunt")
    watcher.start()
    try:
        yield found
        found.update(in_processes(secrets))  # a block may be shorter than a pause
    finally:
        over.set()
        watcher.join()
