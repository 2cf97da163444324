"""The store: what is kept of runs and catalogue runs, and how it is read back.

Owns: the run directory with its sealed steps, the tables in it, the books, the ledger, the records of catalogue runs.
Uses: host (folders) and model.
Weak spot: digests are remembered within a process; `digests` says how far that can be trusted.
"""
