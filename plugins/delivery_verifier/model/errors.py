"""The errors that this project raises on purpose, as one tree; the number is the exit code of `kdv`.

```
VerifierError                   70  the run or the program failed: there is no verdict
├── StepFailed                      a step cannot do its work (RuntimeError)
├── BadInput                    64  a field that the user gave is not allowed (ValueError)
├── IncompleteRun                   a step's output is missing, unfinished or altered (RuntimeError)
├── Unfit                           this host cannot do the run now (RuntimeError)
│   └── Unavailable             69  this host lacks what the scenario needs
├── HostBusy                    75  another run holds this host (RuntimeError)
├── ClusterGone                     the keeper of the cluster is gone (RuntimeError)
├── ControllerDied                  the controller ended, so that no leader can be elected (RuntimeError)
├── CapabilityMissing               a cluster was asked for what it was not started with (RuntimeError)
├── UnsupportedSecurity             a client cannot use a security property of the connection (RuntimeError)
├── DiskError                       a file system could not be made, mounted or unmounted (RuntimeError)
├── FilterError                     the packet filter could not be read or changed (RuntimeError)
├── NotKafka                        bytes in the proxy are no frame of Kafka's protocol (ValueError)
├── Closed                          a rule of the proxy closes this connection
├── ProducerDied                    a producer process ended before its load did (RuntimeError)
├── AlreadySent                     the load of this run was begun before (RuntimeError)
├── Unended                         a transaction could not be ended in time (RuntimeError)
├── Unresolved                      the target of a fault stands for no broker (RuntimeError)
├── ParallelStepFailed              the step that runs beside this one failed (RuntimeError)
├── RunNotGreen                     an arm did not end as expected, or has no verdict (RuntimeError)
├── ContradictorySettings           no producer can be made with these settings (ValueError)
├── JavaError                       there is no usable Java (RuntimeError)
├── JarError                        a jar could not be had, or is not the locked one (RuntimeError)
├── DeadlinePassed                  what was waited for did not come true in time (TimeoutError)
├── SparkGone                       Spark's JVM ended (RuntimeError)
├── NoSparkConnection               the Spark connection is missing or malformed (ValueError)
├── AirflowError                    Airflow could not be reached, or refused (RuntimeError)
│   └── AirflowSilent               Airflow does not answer
├── RunFailed                       a run through Airflow ended without a verdict (RuntimeError)
│   └── TaskNeverStarted            a task was queued, and no worker will start it
├── GateClosed                      a task before the gate did not succeed (RuntimeError)
├── GatePassed                      the gate has let this run through already (RuntimeError)
└── CatalogueNotGreen               a catalogue run is red (RuntimeError)
```

A class without a number has the number of its parent. The built-in class in brackets is the second base, so that code
that catches RuntimeError, ValueError or TimeoutError catches the class too. StepFailed is defined here because several
rooms raise it; every other class is defined in the module that raises it. A command that reads a stored run turns
IncompleteRun into 64: the user named the wrong run.
"""

from __future__ import annotations

from typing import ClassVar


class VerifierError(Exception):
    """Every error that this project raises on purpose. A user sees the message, and no traceback."""

    exit_code: ClassVar[int] = 70
    """What `kdv` ends with when this error ends a command."""


class StepFailed(VerifierError, RuntimeError):
    """A step found that it cannot do its work; the message says why."""
