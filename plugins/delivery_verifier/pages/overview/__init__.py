"""The page of all runs: one row per run with its result. Everything is read from the run directories."""
