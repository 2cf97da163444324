"""The suites as reviewable JSON. `python -m expectations.suites` writes the files. A run only loads the files.

guarantee.json has one expectation per anomaly, about an arm's rows of the books. Its tolerance is a parameter that the
contract or the claim sets; null means any number. evidence.json has one expectation per law of the books.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from great_expectations import ExpectationSuite
from great_expectations.expectations.row_conditions import Column

from delivery_verifier.judgement.evaluation import CANARY, LAWS, Suite
from delivery_verifier.model.anomalies import KINDS
from delivery_verifier.store.books import total_column
from expectations.vocabulary import (
    GUARANTEES,
    ExpectCanariesToBeFound,
    ExpectLawToBalance,
    ExpectLogNotToMove,
)

HERE = Path(__file__).parent
"""The folder of the committed suites."""
SPECIAL: dict[str, type[ExpectLawToBalance]] = {
    "log_moved": ExpectLogNotToMove,
    CANARY: ExpectCanariesToBeFound,
}
"""The laws whose expectations have names of their own. All other laws have ExpectLawToBalance."""


def tolerance_parameter(anomaly: str) -> str:
    """The name of the suite parameter that holds the tolerance of an anomaly, e.g. `lost_tolerance`."""
    return f"{anomaly.lower()}_tolerance"


def guarantee() -> ExpectationSuite:
    """The suite with one expectation per anomaly: in no row does the total of the anomaly exceed its tolerance."""
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
        ],
    )


def evidence() -> ExpectationSuite:
    """The suite with one expectation per law: `left` equals `right` in each row of the law."""
    return ExpectationSuite(
        name="evidence",
        expectations=[
            SPECIAL.get(law, ExpectLawToBalance)(
                column_A="left",
                column_B="right",
                ignore_row_if="neither",
                row_condition=Column("law") == law,
                description=sentence,
                meta={"about": law},
            )
            for law, sentence in LAWS.items()
        ],
    )


def as_json(suite: ExpectationSuite) -> dict[str, Any]:
    """The suite as it is committed, without the installed version and other data that change by themselves."""
    content: dict[str, Any] = suite.to_json_dict()
    return {"name": content["name"], "expectations": content["expectations"]}


def load(name: Suite) -> ExpectationSuite:
    """Reads a committed suite.

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
