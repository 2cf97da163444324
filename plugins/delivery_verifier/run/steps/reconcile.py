"""The step reconcile: the Spark job in this process. The job has two halves. Only the first half needs the cluster.

Airflow submits the same job with spark-submit, both halves at once (`spark_jobs/reconcile.py`).
"""

from __future__ import annotations

from pathlib import Path

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.run.local_spark import SparkProvider
from delivery_verifier.store.run_directory import RunDirectory


def read_topic(run_dir: Path, spark: SparkProvider) -> None:
    """Works the first half: reads the topics, and writes all their records to log/. The cluster must be running.

    `spark` returns the session that reads. Raises whatever Spark raises, and SparkGone if Spark's JVM has ended.
    """
    run = RunDirectory(run_dir)
    run.read_scenario().fail_if_asked("reconcile")
    # On a busy host Spark takes longer to start than a lease lasts, so the lease must be renewed meanwhile.
    cluster = Cluster.of_run(run)
    with lease.renewed(cluster.socket):
        session = spark()
        from spark_jobs.reconcile import read
        from spark_jobs.session import naming_jvm_end

        with naming_jvm_end():
            read(run_dir, session, cluster.connection.spark_options())


def reconcile(run_dir: Path, spark: SparkProvider) -> None:
    """Works the second half: compares log/ with ledger/, and writes anomalies/, books/ and timeline/.

    The books are the counts of all arms, and the laws that bind these counts. The result depends only on the run
    directory, so no cluster is needed. `spark` returns the session that compares. Raises the same errors as
    `read_topic`.
    """
    session = spark()
    from spark_jobs.reconcile import reconcile as reconcile_with
    from spark_jobs.session import naming_jvm_end

    with naming_jvm_end():
        reconcile_with(run_dir, True, session)
