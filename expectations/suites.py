"""The suites: JSON files that people can review. `python -m expectations.suites` writes them. A run only loads them.

guarantee.json has one expectation per anomaly. It judges the rows of one arm in the table counts/producers. Each
expectation has a parameter for its tolerance, which is the greatest number of cases that is permitted. The contract and
the claim determine the tolerance. null permits any number.

guarantee.json also has expectations that tolerate no unexplained case. A case is unexplained if its anomaly is
permitted, but nothing that happened in the run can explain this case.

evidence.json has one expectation per invariant. An invariant says that two counts, made independently of each other,
are equal.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from delivery_verifier.model.anomalies import KINDS
from delivery_verifier.run_directory.tally import total_column
from delivery_verifier.verdict.evaluation import CANARY, INVARIANTS, Suite
from delivery_verifier.verdict.unexplained import UNEXPLAINED, unexplained_column
from expectations.library import Column, ExpectationSuite
from expectations.vocabulary import (
    EXPLAINED,
    GUARANTEES,
    ExpectCanariesToBeFound,
    ExpectInvariantToBalance,
    ExpectLogNotToMove,
)

HERE = Path(__file__).parent
"""The folder of the suites' JSON files."""
SPECIAL: dict[str, type[ExpectInvariantToBalance]] = {
    "log_moved": ExpectLogNotToMove,
    CANARY: ExpectCanariesToBeFound,
}
"""Maps an invariant to the special class of its expectation. The expectation of any other invariant is an
ExpectInvariantToBalance."""


def tolerance_parameter(anomaly: str) -> str:
    """Returns the name of the suite parameter that holds the tolerance of an anomaly, e.g. `lost_tolerance`."""
    return f"{anomaly.lower()}_tolerance"


def guarantee() -> ExpectationSuite:
    """Returns the suite with one expectation per anomaly: no row of counts/producers may count more cases of the
    anomaly than the tolerance permits. Further expectations tolerate no unexplained case."""
    return ExpectationSuite(
        name="guarantee",
        expectations=[
            expectation(
                column=total_column(anomaly),
                min_value=0,
                max_value={"$PARAMETER": tolerance_parameter(anomaly)},
                description=f"No record is {anomaly} beyond the tolerance. {anomaly}: {KINDS[anomaly].definition}",
                meta={"about": anomaly.value},
            )
            for anomaly, expectation in GUARANTEES.items()
        ]
        + [
            expectation(
                column=unexplained_column(anomaly),
                min_value=0,
                max_value=0,
                description=f"Where the contract permits {anomaly}, no record is {anomaly} at a time, a partition or "
                "an offset at which nothing can explain this.",
                meta={"about": UNEXPLAINED[anomaly]},
            )
            for anomaly, expectation in EXPLAINED.items()
        ],
    )


def evidence() -> ExpectationSuite:
    """Returns the suite with one expectation per invariant.

    An expectation judges the rows of its invariant in the table that `verdict.evaluation.evidence_table` returns: in
    each row, the columns `left` and `right` must be equal.
    """
    return ExpectationSuite(
        name="evidence",
        expectations=[
            SPECIAL.get(invariant, ExpectInvariantToBalance)(
                column_A="left",
                column_B="right",
                ignore_row_if="neither",
                row_condition=Column("invariant") == invariant,
                description=sentence,
                meta={"about": invariant},
            )
            for invariant, sentence in INVARIANTS.items()
        ],
    )


def as_json(suite: ExpectationSuite) -> dict[str, Any]:
    """Returns the content of the suite's JSON file. The content lacks data that may change although nobody edited the
    suite, e.g. the version of Great Expectations."""
    content: dict[str, Any] = suite.to_json_dict()
    return {"name": content["name"], "expectations": content["expectations"]}


def load(name: Suite) -> ExpectationSuite:
    """Reads the suite called `name` from its JSON file.

    Raises FileNotFoundError if the file is missing, and an error of Great Expectations for an unknown expectation.
    """
    content = json.loads((HERE / f"{name}.json").read_text())
    return ExpectationSuite(name=content["name"], expectations=content["expectations"])


def regenerate() -> None:
    """Writes both suites into the folder of this module."""
    for suite in (guarantee(), evidence()):
        (HERE / f"{suite.name}.json").write_text(json.dumps(as_json(suite), indent=2) + "\n")


if __name__ == "__main__":
    regenerate()
