"""Great Expectations: the only door to it.

Owns: the vocabulary of expectations, the committed suites, the checkpoint, Data Docs.
May use: judgement, store, model.
Weak spot: Great Expectations fails open, so that the judge believes only the evaluations that were planned; the views
    of Data Docs find the templates of pages by path, because Great Expectations loads the views by name.
"""

import logging

# Before Great Expectations is imported: at INFO it logs some 200 lines while it loads.
logging.getLogger("great_expectations").setLevel(logging.WARNING)
