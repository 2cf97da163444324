"""What Great Expectations is asked: the vocabulary, and the suites as reviewable JSON."""

import logging

# Before Great Expectations is imported: at INFO it logs some 200 lines while it loads.
logging.getLogger("great_expectations").setLevel(logging.WARNING)
