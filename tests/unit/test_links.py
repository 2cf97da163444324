"""All links of the documents lead somewhere, and all commands in them are ones that `kdv`, `make` or Python take."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from support import prose
from support.commands import plan, without_git

from delivery_verifier.command_line import main
from delivery_verifier.model.inputs import BadInput

ROOT = prose.ROOT
DOCUMENTS = prose.documents()
_SH = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_FILES = {
    "producer.properties": "acks=all\nkey.serializer=org.apache.kafka.common.serialization.StringSerializer\n",
    "topic.properties": "min.insync.replicas=2\n",
    "consumer.properties": "enable.auto.commit=false\nisolation.level=read_committed\n",
}
_VALUES = {
    "--producer-config": "producer.properties",
    "--topic-config": "topic.properties",
    "--consumer-config": "consumer.properties",
    "--save-profile": "saved",
}
"""What takes the place of the value of an option, because the document names a file of its reader."""
_PLACEHOLDERS = {"--application": ("commit_after", ("NAME", "orders")), "--profile": ("safe", ("NAME", "orders"))}
_PLACEHOLDERS["--scenario"] = ("everyday.none", ("NAME",))
_WORDS = {"N": "3", "A": "4.2.1", "B": "4.3.1", "G": "10"}
"""What takes the place of the names that documents use for numbers and versions."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(path: Path) -> set[str]:
    """Returns the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(path: Path) -> list[str]:
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]


def commands(path: Path) -> list[str]:
    """Returns every command of kdv or make in a document: in blocks of the shell, and in the text."""
    text = path.read_text()
    lines = [line for block in _SH.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    lines += _CODE.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    plain = [line.strip().removeprefix(".venv/bin/") for line in lines]
    return list(dict.fromkeys(line for line in plain if re.match(r"(kdv|make) [a-z-]", line)))


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the files of a reader."""
    without_git(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KDV_HOME", str(tmp_path))  # a command saves a profile there
    for file, text in _FILES.items():
        (tmp_path / file).write_text(text)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_a_link_leads_to_a_file_and_to_a_heading_in_it(document: Path) -> None:
    missing = []
    for link in links(document):
        target, _, anchor = link.partition("#")
        file = (document.parent / target).resolve() if target else document
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            missing.append(link)
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_a_command_is_taken(document: Path) -> None:
    refused = {}
    for command in commands(document):
        try:
            taken(command.removesuffix(" --help"))
        except (BadInput, SystemExit, KeyError, AssertionError) as error:
            refused[command] = str(error)
    assert refused == {}


def taken(command: str) -> None:
    """Plans a command of kdv, or looks a target up in the Makefile. Raises an error if the command is refused."""
    words = shlex.split(re.sub(r"[\[\]]|\|\w+|( [|>&] .*$)| #.*$", "", command.replace(" ...", "")))
    if words[0] == "make":
        targets = [word for word in words[1:] if "=" not in word]
        makefile = (ROOT / "Makefile").read_text()
        assert targets and all(re.search(rf"^{re.escape(target)}:", makefile, re.M) for target in targets), command
    elif len(words) > 2 or words[1] not in _commands():  # else the command is only named
        for position, option in enumerate(words[:-1]):
            value, names = _PLACEHOLDERS.get(option, ("", ()))
            if option in _VALUES or words[position + 1] in names:
                words[position + 1] = _VALUES.get(option, value)
        plan(shlex.join(_WORDS.get(word, word) for word in words))


def _commands() -> set[str]:
    return {choice for action in main._parser()._actions for choice in (action.choices or ())}


def test_a_link_or_command_that_leads_nowhere_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# A page\n[x](#a-page) [y](nowhere.md)\n`kdv rnu` `make nothing` `kdv plan`\n")
    assert links(tmp_path / "page.md") == ["#a-page", "nowhere.md"] and anchors(tmp_path / "page.md") == {"a-page"}
    for command in ("kdv rnu --x", "make nothing"):
        with pytest.raises((SystemExit, AssertionError)):
            taken(command)
    assert commands(tmp_path / "page.md") == ["kdv rnu", "make nothing", "kdv plan"]
