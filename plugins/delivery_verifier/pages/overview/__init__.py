"""The page of all runs: what each of them found, told from its run directory alone."""
