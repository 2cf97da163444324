"""The sequenced load: producers as child processes, and a live ledger that survives them."""
