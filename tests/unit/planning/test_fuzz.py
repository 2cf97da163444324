"""Tests with generated input. Whatever bytes or JSON come in, the input is either read correctly or refused as bad
input. No other error is raised."""

from __future__ import annotations

import re
import string
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.commands import plan

from delivery_verifier import catalogue
from delivery_verifier.host import folders
from delivery_verifier.host.redaction import redact
from delivery_verifier.model import record
from delivery_verifier.model.data import dumps
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Load, Scenario
from delivery_verifier.model.scenario_checks import loads
from delivery_verifier.planning import build
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.own_settings import properties
from delivery_verifier.run_directory.run_directory import Manifest


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    """Saves time: replaces the questions to git and to the installed packages, which would be asked for each
    example."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "commit", lambda: "unknown")
        patch.setattr(build, "versions_of", lambda kafka: {"kafka": kafka})
        yield


SETTINGS = settings(
    max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
FORM = re.compile(rb"KDV1 [!-~]{8}( [0-9]{4}){3} [0-9]{12} [0-9]{4} [0-9]{12} .*[0-9]{10}", re.DOTALL)
"""The form of a record as a regular expression. It was written independently of the parser's."""
VALID = msgspec.to_builtins(scenario_from_params({}, "fuzz"))

SEQUENCES = st.integers(0, 10**12 - 1)
DIGITLIKE = st.text(st.sampled_from("0123456789+-_ ٣²"), min_size=4, max_size=12).map(lambda text: text.encode()[:12])
PIECES = st.one_of(
    st.binary(max_size=20), DIGITLIKE, st.sampled_from([b"KDV1", b" ", b"0001", b"000000000001", b"9" * 10, b"\n"])
)


@st.composite
def damaged(draw: Any) -> bytes:
    """Draws a record that was cut, spliced or partly overwritten. Sometimes its checksum is computed again, so that it
    fits."""
    value = record.encode("run-1234", 1, 2, 3, draw(SEQUENCES), 5, draw(SEQUENCES), draw(st.integers(70, 120)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(value)))
        value = value[:at] + draw(PIECES) + value[at + draw(st.integers(0, 12)) :]
    if draw(st.booleans()) and len(value) >= record.CRC_WIDTH:
        value = value[: -record.CRC_WIDTH] + b"%010d" % zlib.crc32(value[: -record.CRC_WIDTH])
    return value


@pytest.mark.slow
@SETTINGS
@given(st.one_of(damaged(), st.lists(PIECES).map(b"".join), st.binary(max_size=200)))
def test_bytes_are_a_record_exactly_if_they_have_its_form(value: bytes) -> None:
    header = record.parse(value)
    assert (header is not None) == (len(value) >= record.MIN_PAYLOAD_BYTES and FORM.fullmatch(value) is not None)
    if header is not None:
        assert header.crc_ok == (int(value[-10:]) == zlib.crc32(value[:-10]))
        again = record.encode(
            header.run,
            header.arm,
            header.producer,
            header.session,
            header.sequence,
            header.attempt,
            header.partition_sequence,
            len(value),
        )
        assert again[: record.HEADER_BYTES] == value[: record.HEADER_BYTES]


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "profile": st.sampled_from(list(catalogue.PROFILES)),
        "application": st.sampled_from(list(catalogue.APPLICATIONS)),
        "fault": st.sampled_from(list(catalogue.FAULTS)),
        "claim": st.sampled_from(["contract", "at_most_once", "at_least_once", "exactly_once", "ordered"]),
        "records": st.integers(0, 10**11),
        "rate": st.integers(1, 10**6),
        "producers": st.integers(1, 64),
        "partitions": st.integers(1, 1000),
        "replication_factor": st.integers(2, 3),
        "payload_bytes": st.integers(70, 10**6),
        "transaction_records": st.integers(1, 100_000),
        "abort_every": st.integers(2, 1_000_000),
        "cycles": st.integers(1, 1000),
        "seed": st.integers(0, 2**31 - 1),
        "duration_s": st.floats(0.001, 86_400),
    },
)
ANYTHING = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=40),
        st.sampled_from(["", "NaN", "-1", "1e20", "../x", "\x00"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=5,
)


@pytest.mark.slow
@SETTINGS
@given(FIELDS)
def test_a_scenario_is_read_back_as_it_was_written(fields: dict[str, Any]) -> None:
    try:
        made = scenario_from_params(fields, "fuzz")
    except BadInput as refusal:  # e.g. a record that no producer has room for
        assert "allowed" in str(refusal) or "payload" in str(refusal) or "message" in str(refusal)
        return
    assert loads(dumps(made)) == made
    told = {name: value for name, value in fields.items() if name in Load.__struct_fields__}
    assert {name: getattr(made.load, name) for name in told} == told
    assert [arm.application and arm.application.name for arm in made.subjects] == [fields.get("application")]
    again = plan(made.command)
    assert isinstance(again, Scenario), "the command that repeats the run"
    assert [(arm.profile, arm.application) for arm in again.arms] == [
        (arm.profile, arm.application) for arm in made.arms
    ]


@SETTINGS
@given(
    st.sampled_from(
        [
            *VALID,
            "profile",
            "application",
            "fault",
            "claim",
            "records",
            "duration_s",
            "fail_step",
            "owner_",
            "own_profile",
        ]
    ),
    ANYTHING,
)
def test_any_field_of_a_form_is_taken_or_refused(name: str, value: Any) -> None:
    try:
        made = scenario_from_params({name: value}, "fuzz")
    except BadInput:
        return
    assert loads(dumps(made)) == made


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    return [path, *(deeper for key, item in inner for deeper in _paths(item, (*path, key)))]


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


PATHS = _paths(_plain(VALID))


@SETTINGS
@given(st.sampled_from(PATHS[1:]), ANYTHING, st.sampled_from(["replace", "remove", "add"]))
def test_an_altered_scenario_is_read_strictly_or_refused(path: tuple[Any, ...], value: Any, how: str) -> None:
    text = _plain(VALID)
    lock_owner = text
    for key in path[:-1]:
        lock_owner = lock_owner[key]
    if how == "replace":
        lock_owner[path[-1]] = value
    elif how == "remove":
        del lock_owner[path[-1]]
    elif isinstance(lock_owner, dict):
        lock_owner["unheard_of"] = value
    try:
        read = loads(msgspec.json.encode(text))
    except BadInput as refusal:
        assert str(refusal)
        return
    assert isinstance(read, Scenario) and loads(dumps(read)) == read
    if how == "add" and isinstance(lock_owner, dict):
        assert path[-2:-1] and path[-2] in FREE, "a field that nobody knows was passed over"


FREE = ("producer", "topic", "versions", "broker_settings")
"""The fields that hold mappings with arbitrary keys."""


@SETTINGS
@given(
    st.binary(max_size=300)
    | st.tuples(st.integers(0, 4000), st.binary(max_size=3)).map(lambda at: dumps(VALID)[: at[0]] + at[1])
)
def test_bytes_that_are_no_scenario_are_refused(text: bytes) -> None:
    try:
        loads(text)
    except BadInput:
        return
    raise AssertionError("taken for a scenario")


@SETTINGS
@given(st.text(max_size=400))
def test_a_run_id_is_taken_as_it_is_or_refused_with_one_that_is_taken(run_id: str) -> None:
    try:
        assert folders.check_run_id(run_id) == run_id and folders.run_directory_name(run_id)
    except BadInput as refusal:
        assert "\n" not in str(refusal)
        folders.check_run_id(str(refusal).rsplit("--run-id ", 1)[1])


LINES = st.lists(
    st.text(st.sampled_from(string.ascii_letters + string.digits + " .=:#!\\\t\u00e9\x00-"), max_size=40), max_size=6
).map("\n".join)


@SETTINGS
@given(LINES)
def test_any_text_is_properties_or_refused(text: str) -> None:
    try:
        found = properties.parse(text, "producer_config")
    except BadInput as refusal:
        assert "producer_config" in str(refusal)
        return
    assert all(isinstance(name, str) and name for name in found)


@SETTINGS
@given(
    st.text(max_size=200), st.lists(st.text(string.ascii_letters + string.digits, min_size=6, max_size=12), max_size=3)
)
def test_a_known_secret_never_survives_redaction(text: str, secrets: list[str]) -> None:
    told, _ = redact(text + "".join(f" x={secret} " for secret in secrets), sorted(set(secrets), key=len, reverse=True))
    assert not [secret for secret in secrets if secret in told and secret not in "[redacted]"]


@SETTINGS
@given(ANYTHING)
def test_any_json_is_a_manifest_or_refused(value: Any) -> None:
    try:
        msgspec.json.decode(msgspec.json.encode(value), type=Manifest)
    except msgspec.MsgspecError:
        return
    raise AssertionError("taken for a manifest")
