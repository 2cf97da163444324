"""The failures that a run can have without being wrong itself: told in one line, never as a traceback."""

from __future__ import annotations

import subprocess

from delivery_verifier.cluster.lease import ClusterGone
from delivery_verifier.host.java.jars import JarError
from delivery_verifier.host.java.runtime import JavaError
from delivery_verifier.host.waiting import DeadlinePassed
from delivery_verifier.orchestration.local.client import AirflowError
from delivery_verifier.orchestration.local.run import RunFailed

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
