"""The command `kdv`, which runs the verifier from a terminal.

Owns: commands, their options, exit codes, and what the commands print.
May use: maintenance, local_airflow, orchestration, suite, audit, pipeline, progress, reporting, expectations,
    planning, advice, verdict, faults, spark_jobs, load, cluster, run_directory, contract, catalogue, host, model.
Weak spot: a bug of the verifier and a failed run have the same exit code, 70.
"""
