"""The page of all runs: one row per run with the result of the run, read only from its run directory."""
