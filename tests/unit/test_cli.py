"""The command line: an exit code that a pipeline reads must not say what did not happen."""

from __future__ import annotations

import pytest

from delivery_verifier import cli


@pytest.mark.parametrize("line", [["run", "--bogus"], ["run", "--fault", "meteor"], ["nonsense"], []])
def test_a_mistyped_command_line_is_bad_input_and_not_inconclusive(line: list[str]) -> None:
    try:
        ended: object = cli.main(line)
    except SystemExit as end:
        ended = end.code
    assert ended == cli.BAD_INPUT
