"""The page of all runs: one row per run, with the result of the run. The figures on the page come from the run
directories."""
