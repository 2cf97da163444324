"""The steps of a run, one module for each step. The function of a step reads and writes the run directory."""
