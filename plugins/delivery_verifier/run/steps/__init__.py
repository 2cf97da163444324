"""The steps of a run, one module and one function each: run directory in, run directory out."""
