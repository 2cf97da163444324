"""Report: the page of one run, report.html: what happened, why, and how to repeat it."""
