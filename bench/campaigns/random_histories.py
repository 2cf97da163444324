"""Plays ten rounds of the random histories of the tests, each with other seeds: 10,000 histories of ledger and log, and
as many with effects.

`python bench/campaigns/random_histories.py [--rounds N]`, or `make campaign PART=random_histories`. In each round, a
thousand histories, and every history that is made to deceive, are reconciled without the screen and with a screen,
whose width changes from round to round. All results must be equal to those of the oracle. 1,400 histories of effects
are compared in the same way. The comparisons are tests (FILES). The page docs/results/random-histories-<date>.md is
written anew after each round. Rounds that have passed at the same commit are not repeated, so Ctrl-C loses one round.
The exit code is 1 if a test of any round failed. A round takes about two minutes.
"""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from bench.kit import saved
from delivery_verifier.planning.provenance import commit, versions_of

ROOT = saved.ROOT
FILES = ("tests/quality/test_every_planted_anomaly_is_found.py", "tests/quality/test_effects.py")
WIDTHS = (1, 2, 3)
"""The widths of screens: parameters of the tests in FILES."""
STATE = ROOT / ".kdv" / "histories.json"
"""The rows of rounds that passed, and their commit."""
Row = dict[str, int]


def main() -> int:
    """Plays the rounds, and writes the page after each. Returns the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raises SystemExit
    parser = saved.option_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = range(1, max(1, parser.parse_args().rounds) + 1)
    rows = passed_before()
    for number in rounds:
        if number not in rows:
            rows[number] = play(number)
        page = keep(rows)
        print(rows[number], flush=True)
    print(page.read_text())
    return 1 if any(rows[number]["failed"] for number in rounds) else 0


def play(number: int) -> Row:
    """Plays the round `number`. Returns its row. Raises CalledProcessError if pytest could not run the tests."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        ways = ("bits-exhaustive", f"bits-{WIDTHS[number % len(WIDTHS)]}")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-k", " or ".join(["not bits", *ways]), f"--junitxml={report}", *FILES]
        began_s = time.monotonic()
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"KDV_TEST_HISTORIES_ROUND": str(number), "KDV_TEST_HISTORIES": "1000"},
            check=False,
        )
        if ended.returncode not in (0, 1):  # 0: all passed; 1: some failed
            raise subprocess.CalledProcessError(ended.returncode, command)
        seconds = round(time.monotonic() - began_s)
        return {"round": number, **counts_of(report.read_text(), ways), "seconds": seconds}


def counts_of(report: str, ways: Sequence[str]) -> Row:
    """Returns how many tests passed, and how many did not, in a JUnit `report` of pytest. A skipped test failed: what
    it compares was not compared. Raises ValueError if no test has one of `ways` in its name."""
    suites = ElementTree.fromstring(report).findall("testsuite")
    names = [case.get("name", "") for suite in suites for case in suite.findall("testcase")]
    if lacking := [way for way in ways if not any(f"[{way}]" in name for name in names)]:
        raise ValueError(f"no test of {', '.join(FILES)} has the parameter {', '.join(lacking)}")
    total, *others = (
        sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    return {"passed": total - sum(others), "failed": sum(others)}


def passed_before() -> dict[int, Row]:
    """Returns the rows of the rounds that have passed at this commit, by number."""
    state = json.loads(STATE.read_text()) if STATE.exists() else {}
    is_same = state.get("commit") == commit() and not commit().endswith("-dirty")
    return {row["round"]: row for row in state.get("rows", []) if not row["failed"]} if is_same else {}


def keep(rows: dict[int, Row]) -> Path:
    """Writes the state and the page. Returns the page."""
    ordered = [rows[number] for number in sorted(rows)]
    STATE.parent.mkdir(exist_ok=True)
    STATE.write_text(json.dumps({"commit": commit(), "rows": ordered}, indent=1))
    page = saved.RESULTS / f"random-histories-{datetime.date.today()}.md"
    page.write_text("\n".join(["# Random histories, by rounds of other seeds", "", *text_of(ordered)]) + "\n")
    return page


def text_of(rows: list[Row]) -> list[str]:
    """Returns the lines of the page below its title."""
    played = f"{len(rows)} rounds, {1000 * len(rows):,} histories of ledger and log, {1400 * len(rows):,} of effects"
    failed = sum(row["failed"] for row in rows)
    said = "every result was the oracle's" if not failed else f"**{failed} tests failed**"
    head = f"`python bench/campaigns/random_histories.py` at {commit()}; {saved.circumstances(versions_of('4.3.1'))}."
    return [head, "", f"{played}: {said}.", "", *saved.table(rows)]


if __name__ == "__main__":
    sys.exit(main())
