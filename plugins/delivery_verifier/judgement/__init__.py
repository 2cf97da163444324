"""Derives the verdict from the evidence of a finished run. This is the last step on the way of a record.

Owns: evidence, doubts, the canary (an arm with planted anomalies), the list of the evaluations that a verdict requires,
    the verdict and its sentence.
May use: contract, store, model.
Weak spot: if the log holds several copies of a record, only the first copy is checked for its order.
"""
