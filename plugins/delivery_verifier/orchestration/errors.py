"""The failures that a run can have without being wrong itself: told in one line, never as a traceback."""

from __future__ import annotations

import subprocess

from delivery_verifier.cluster.jars import JarError
from delivery_verifier.cluster.java import JavaError
from delivery_verifier.cluster.lease import ClusterGone
from delivery_verifier.orchestration.client import AirflowError
from delivery_verifier.orchestration.run import RunFailed
from delivery_verifier.waiting import DeadlinePassed

EXPECTED = (
    AirflowError,
    RunFailed,
    JarError,
    JavaError,
    ClusterGone,
    DeadlinePassed,
    RuntimeError,
    OSError,
    subprocess.SubprocessError,
)
"""What the command line reports as `70`: the run failed, and there is no verdict."""
