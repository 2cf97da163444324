"""From evidence to a verdict.

Owns: evidence, doubts, the canary, the expected evaluations, the verdict and its sentence.
May use: contract, store, model.
Weak spot: only the first copy of a record counts for its order.
"""
