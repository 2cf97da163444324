"""Derives the verdict of a run from the evidence in its run directory. Judging is the last thing that happens to a
record.

Owns: evidence, doubts, the list of the evaluations that a verdict requires, the verdict and its sentence.
May use: canary, contract, run_directory, model.
Weak spot: if the log holds several copies of a record, only the first copy is checked for its order.
"""
