"""The steps of a run, one module each. The function of a step reads and writes the run directory."""
