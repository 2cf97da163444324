"""kdv: the verifier from a terminal.

Owns: commands, their options, exit codes, and what they print.
May use: upkeep, orchestration, catalogue_run, run, pages, expectations, planning, judgement, faults, spark_jobs, load,
    cluster, store, contract, catalogue, host, model.
Weak spot: every RuntimeError is one line with exit code 70, even if it is a bug of the verifier.
"""
