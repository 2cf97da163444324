"""The page of all runs: what each run found, read from its run directory alone."""
