"""Literals: values of this process as columns, in forms that cost little."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F


def literal(value: object, kind: str) -> Column:
    """Returns `value` as one literal of the Spark type `kind`. An array or a map that is built column by column would
    cost one JVM call per entry."""
    return F.from_json(F.lit(json.dumps(value)), kind)


def numbers_of_run(numbers: Sequence[int]) -> Column:
    """Returns `numbers`, which differ from run to run, as an array, for rows with a column `arm` that is not null.

    Use it in queries that read many rows. Spark writes a number's literal into the code of a query. So Spark would
    compile the query anew for each run, and the JVM would interpret this code at first. Spark hands an array over as an
    object. It would still evaluate an element early if the array did not depend on a column.
    """
    return F.when(F.col("arm").isNotNull(), literal([*numbers], "array<bigint>"))
