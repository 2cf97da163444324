"""Great Expectations: the only door to it.

Owns: the vocabulary of expectations, the committed suites, the checkpoint, Data Docs.
May use: judgement, store, model.
Weak spot: Great Expectations fails open, so that the judge believes only what was expected to be evaluated; the views
    of Data Docs find the templates of pages by their path, for Great Expectations loads them by name.
"""

import logging

# Before Great Expectations is imported: at INFO it logs some 200 lines while it loads.
logging.getLogger("great_expectations").setLevel(logging.WARNING)
