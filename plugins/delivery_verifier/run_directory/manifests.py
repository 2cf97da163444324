"""Manifests. A manifest is the file `<step>.json`, with which a finished step seals what it wrote.

A manifest also names its run and the manifests of the steps whose output the step used, and has a checksum of its own
content. So files of another run, or altered counts, cannot pass as output of the step.
Checksums are not summary rows: they reveal an accident or a single altered file, but not a person who computes all
checksums anew.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
from msgspec import Struct

from delivery_verifier.model.errors import VerifierError
from delivery_verifier.run_directory.format import FORMAT, schema_digest

NOT_WRITTEN = "not_written/"
"""The prefix of a note about a file or folder that the step was to write, and on which no verdict rests. The note says
why the file or folder is missing."""


class IncompleteRun(VerifierError, RuntimeError):
    """The output of a step is missing, unfinished, altered, from another run, or in an unknown format.

    Such output allows no verdict.
    """


class Manifest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The manifest of a finished step, `<step>.json`. A step writes it last, so a step without a manifest is
    unfinished.

    * `files`: maps the path of each file that the step wrote, relative to the run directory, to the file's SHA-256.
    * `counts`, `notes`: the step's own figures and texts.
    * `started_at_us`, `finished_at_us`: µs since the epoch.
    * `format`, `schema`: name and version of the run directory's format, and the digest of its schema
      (docs/reference/run-directory.md).
    * `run_id`: the run's id in scenario.json.
    * `required`: maps each finished step whose output this step used (`steps.REQUIRES`) to the SHA-256 of that step's
      manifest.
    * `seal`: the checksum of all other fields (see `seal_of`).
    """

    step: str
    started_at_us: int
    finished_at_us: int
    files: dict[str, str]
    counts: dict[str, int]
    notes: dict[str, str]
    format: str
    schema: str
    run_id: str
    required: dict[str, str]
    seal: str = ""


class _Format(Struct, frozen=True):
    """The part of a manifest that names its format. A manifest of another program may lack these fields. Until version
    10, there was a number alone (`format_version`)."""

    format: str | None = None
    schema: str | None = None
    format_version: int | None = None

    @property
    def in_words(self) -> str:
        if self.format is not None:
            return f"format {self.format}" + (f", schema {self.schema}" if self.format == FORMAT else "")
        return "no format" if self.format_version is None else f"format version {self.format_version}"


def seal_of(content: bytes) -> str:
    """Returns the SHA-256 of a manifest as hexadecimal digits. `content` is the manifest as JSON, in any layout.

    The function first removes the field `seal`, and rewrites the manifest as compact UTF-8 JSON with sorted keys. The
    digest is computed from this text. Raises msgspec.DecodeError if `content` is not JSON, and AttributeError if the
    JSON is not an object.
    """
    fields = msgspec.json.decode(content)
    fields.pop("seal", None)
    return hashlib.sha256(msgspec.json.encode(fields, order="sorted")).hexdigest()


def sealed(manifest: Manifest) -> Manifest:
    """Returns `manifest` with its field `seal` filled in."""
    return msgspec.structs.replace(manifest, seal=seal_of(msgspec.json.encode(manifest)))


def read(file: Path, run_id: str | None) -> Manifest:
    """Reads and checks the manifest `file`. `run_id` is the run's id in scenario.json.

    If scenario.json cannot be read, `run_id` is None, and the manifest may belong to any run. A run with a damaged
    scenario has no verdict. But its owner must be able to remove the run, and removal reads the manifest.

    Raises IncompleteRun if the manifest is damaged or altered, belongs to another run, or has an unknown version.
    """
    try:
        content = file.read_bytes()
        require_known_format(file, content)
        manifest = msgspec.json.decode(content, type=Manifest)
    except (OSError, msgspec.MsgspecError) as error:
        raise IncompleteRun(f"{file} is damaged: {error}") from None
    if outside := [name for name in manifest.files if Path(name).is_absolute() or ".." in Path(name).parts]:
        raise IncompleteRun(f"{file} is damaged: {outside[0]!r} is outside the run directory")
    if manifest.seal != seal_of(content):
        raise IncompleteRun(f"{file} was altered: its seal differs from the checksum of its content")
    if run_id is not None and manifest.run_id != run_id:
        raise IncompleteRun(f"{file} is of the run {manifest.run_id!r}; scenario.json is of the run {run_id!r}")
    if manifest.step != file.stem:
        raise IncompleteRun(f"{file} is the manifest of the step {manifest.step!r}")
    return manifest


def require_known_format(file: Path, content: bytes) -> None:
    """Raises IncompleteRun if the manifest `file` has another format than FORMAT, or another digest of its schema.

    `content` is the bytes of the manifest. Bytes that cannot be decoded raise no error here.
    """
    try:
        named = msgspec.json.decode(content, type=_Format)
    except msgspec.MsgspecError:
        return
    if (named.format, named.schema) != (FORMAT, schema_digest()):
        raise IncompleteRun(
            f"{file} has {named.in_words}; this kafka-delivery-verifier reads format {FORMAT}, schema "
            f"{schema_digest()} only. Use the kafka-delivery-verifier that wrote the run, or make the run again"
        )
