"""Evaluates the counts of a run with Great Expectations. No other package imports this library.

The counts are tables of exact counts, which `spark_jobs` writes. `verdict` derives the verdict from the evaluations.

Owns: the vocabulary of expectations, the suites (JSON files in this package), the validation, Data Docs.
May use: verdict, run_directory, host.optional, model.
Weak spot: Great Expectations fails open: for example, an empty table passes. So `verdict` believes only the
    evaluations that were planned. The views of Data Docs open HTML templates of `reporting` by their paths. Great
    Expectations creates the views, so no code of this project can pass the templates to them.
"""

import logging

# This must happen before Great Expectations is imported: at level INFO, the import logs some 200 lines.
logging.getLogger("great_expectations").setLevel(logging.WARNING)
