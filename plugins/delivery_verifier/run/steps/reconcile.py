"""The step reconcile without Airflow: runs the Spark job in this process, in two halves.

Only the first half needs the cluster. With Airflow, the task `reconcile` runs both halves as one job
(`spark_jobs/reconcile.py`). Spark is then the one that the connection `spark_default` names.
"""

from __future__ import annotations

from pathlib import Path

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.security import spark_options
from delivery_verifier.run.local_spark import SparkProvider
from delivery_verifier.store.run_directory import RunDirectory


def read_topic(run_dir: Path, spark: SparkProvider) -> None:
    """Performs the first half of the step: reads the topics, and writes all records to log/ in the run directory.

    `spark` returns the session that reads. The cluster must be running. While Spark reads, the secrets of the cluster's
    connection stand in a file of the workspace (see `spark_options`). Raises ClusterGone if the cluster has ended,
    and SparkGone if Spark's JVM has ended. Any other error of Spark is raised as it is.
    """
    run = RunDirectory(run_dir)
    run.read_scenario().fail_if_asked("reconcile")
    # On a busy host Spark takes longer to start than a lease lasts, so the lease must be renewed meanwhile.
    cluster = Cluster.of_run(run)
    with lease.renewed(cluster.socket):
        session = spark()
        from spark_jobs.reconcile import read
        from spark_jobs.session.classic import naming_jvm_end
        from spark_jobs.session.progress import shown

        with (
            naming_jvm_end(),
            shown(run, session),
            spark_options.granted(cluster.connection, cluster.workspace) as options,
        ):
            read(run_dir, session, options)


def reconcile(run_dir: Path, spark: SparkProvider) -> None:
    """Performs the second half of the step: compares log/ with ledger/, and writes anomalies/, books/ and timeline/.

    log/ holds the records of the topics. ledger/ holds every send with its outcome. The books are tables of counts per
    arm. One of the books holds pairs of counts that must be equal. The result depends only on the run directory, so no
    cluster is needed.

    `spark` returns the session that compares. Raises SparkGone if Spark's JVM has ended. Any other error of Spark is
    raised as it is.
    """
    session = spark()
    from spark_jobs.reconcile import reconcile as reconcile_with
    from spark_jobs.session.classic import naming_jvm_end
    from spark_jobs.session.progress import shown

    with naming_jvm_end(), shown(RunDirectory(run_dir), session):
        reconcile_with(run_dir, True, session)
