"""Random settings files: no promise rests on a name that the file's framework does not read.

The oracle is a plain file with exactly the settings that are in force, under Kafka's own names.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.random_settings import FORMATS, RandomFile, plain
from support.seeds import in_this_round

from delivery_verifier.contract.guarantees import matrix
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.client import Client
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.consistency import check_settings
from delivery_verifier.planning.own_settings import profiles

pytestmark = pytest.mark.slow
FILES = 300
"""How many files are made."""


def promise(path: Path, client: Client | None) -> object:
    """Returns the matrix of guarantees of the file's own client, or None if the file is refused."""
    try:
        profile = profiles.from_files(None, str(path), None, None, client)
        check_settings(profile)
    except BadInput:
        return None
    return matrix(Settings.of_profile(profile, client=profile.written_for))


def offence(file: RandomFile, folder: Path) -> str:
    """Returns what is wrong with the answer about `file`; an empty text if nothing is."""
    path, oracle = folder / file.name, folder / "oracle.properties"
    path.write_text(file.text)
    oracle.write_text(plain(file))
    said = promise(path, None)
    if said is None:
        return ""
    if not file.is_known:
        return "a promise although a setting is not known"
    return "" if said == promise(oracle, "java" if file.client == "java" else "librdkafka") else "another promise"


def test_no_promise_rests_on_a_name_that_is_not_read(tmp_path: Path) -> None:
    files = [FORMATS[seed % len(FORMATS)](in_this_round(seed)) for seed in range(FILES)]
    offences = [(file, what) for file in files if (what := offence(file, tmp_path))]
    assert offences == []


def test_most_files_are_taken_so_that_the_test_above_says_something(tmp_path: Path) -> None:
    files = [FORMATS[seed % len(FORMATS)](in_this_round(seed)) for seed in range(FILES // 3)]
    taken = 0
    for file in files:
        path = tmp_path / file.name
        path.write_text(file.text)
        taken += file.is_known and promise(path, None) is not None
    assert taken >= len(files) // 3
