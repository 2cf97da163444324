"""The base of all errors that this project raises on purpose. This tree shows every class. A number in the tree is the
exit code of `kdv`.

```
VerifierError                   70  the run or the program failed: there is no verdict
├── StepFailed                      a step cannot do its work (RuntimeError)
├── BadInput                    64  a field that the user gave is not allowed (ValueError)
├── IncompleteRun                   a step's output is missing, unfinished or altered (RuntimeError)
├── Unfit                           this host cannot do the run now (RuntimeError)
│   └── Unavailable             69  this host lacks what the scenario needs
├── HostBusy                    75  another run holds this host (RuntimeError)
├── ClusterGone                     the cluster agent of the cluster is gone (RuntimeError)
├── ControllerDied                  Kafka's controller ended, so that no leader can be elected (RuntimeError)
├── CapabilityMissing               the cluster was not started with what an action needs (RuntimeError)
├── SecretsOutOfReach           64  Spark cannot read the file with the secrets of a connection (ValueError)
├── UnsupportedSecurity         64  a client cannot use a security property of the connection (RuntimeError)
├── NotAuthorized                   the cluster does not give this client a right (RuntimeError)
├── RightsMissing               69  this client may not read the topic that is to be audited (RuntimeError)
├── Unreachable                 69  no broker of a cluster that somebody else runs can be reached (RuntimeError)
│   └── OtherCluster                the servers belong to another cluster than when the run began
├── ClusterUnfit                69  a cluster that somebody else runs lacks what the run needs (RuntimeError)
├── ClusterUnknown                  such a cluster does not say whether it has what the run needs (RuntimeError)
├── ClusterTaken                75  topics of another run are on a cluster that somebody else runs (RuntimeError)
├── NotSpoken                       a broker takes no version of a request that is spoken here (RuntimeError)
├── EngineError                     the container engine does not answer, or refuses a request (RuntimeError)
├── NotANode                        a container with our label is no node of Kafka (RuntimeError)
├── Refusal                         the fault gateway does not allow a request (RuntimeError)
├── Conflict                        a request to the fault gateway needs a lease that does not run (RuntimeError)
├── GatewayGone                     the fault gateway does not answer (RuntimeError)
├── GatewayRefused                  the fault gateway, or the engine behind it, refused a request (RuntimeError)
├── DiskError                       a file system could not be made, mounted or unmounted (RuntimeError)
├── FilterError                     the packet filter could not be read or changed (RuntimeError)
├── NotKafka                        the proxy got bytes that are no frame of Kafka's protocol (ValueError)
├── Closed                          a rule of the proxy demands that a connection be closed
├── UnknownFormat                   a record of `__consumer_offsets` has another format (ValueError)
├── ProducerDied                    a producer process ended before it had sent all of its load (RuntimeError)
├── ClientDied                      the JVM of a producer or member ended by itself, or takes no more (RuntimeError)
├── MemberDied                      a member of an application ended unasked (RuntimeError)
├── OutputFailed                    records of an output topic were not acknowledged, or not as they were written
│                                   (RuntimeError)
├── DamagedSlots                    the slots of a member have a gap that no order of writes leaves (ValueError)
├── DamagedDatabase                 SQLite reports that the database of an application is damaged (ValueError)
├── PlaceBusy                       a transaction of a user application has locked its effects (RuntimeError)
├── OffsetMoved                     another member has moved an offset in the database of an application (RuntimeError)
├── CommitUnknown                   nobody knows whether a consumer group accepted a commit (RuntimeError)
├── AlreadySent                     the load of this run has begun before, and is not sent twice (RuntimeError)
├── CommandFailed                   a command of the operator failed, or may not be run now (RuntimeError)
├── LoadEnded                       the load of a subject ended before a step of the fault plan (RuntimeError)
├── Unended                         a transaction could not be ended in time (RuntimeError)
├── Unresolved                      the target that a fault plan names stands for no broker now (RuntimeError)
├── ParallelStepFailed              a step that runs in parallel failed, or the cluster ended (RuntimeError)
├── RunNotGreen                     an arm did not end as expected, or is INCONCLUSIVE (RuntimeError)
├── ContradictorySettings           no producer can be made with these settings (ValueError)
├── UnknownValue                    a placeholder in a file has no value there (ValueError)
├── JavaError                       there is no usable Java (RuntimeError)
├── JarError                        a jar could not be fetched, or has a wrong checksum (RuntimeError)
├── WheelError                      librdkafka cannot be had in a version, or a process has another (RuntimeError)
├── DeadlinePassed                  a condition did not become true in time (TimeoutError)
├── WrongByteOrder                  this host is big-endian, and mapped files are little-endian (RuntimeError)
├── SparkGone                       Spark's JVM ended (RuntimeError)
├── NoSparkConnection               the Spark connection is missing or malformed (ValueError)
├── AirflowError                    Airflow could not be reached, or refused a request (RuntimeError)
│   ├── AirflowLacks                Airflow does not have what was asked for
│   └── AirflowSilent               Airflow does not answer
├── RunFailed                       a run through Airflow ended without a verdict (RuntimeError)
│   └── TaskNeverStarted            a task was queued, and no worker will start it
├── GateClosed                      the gate (last task of a DAG) found a task that did not succeed (RuntimeError)
├── GatePassed                      a task is run again after the gate succeeded (RuntimeError)
└── CatalogueNotGreen               an entry of a catalogue run did not end as expected (RuntimeError)
```

A class without a number has the number of its parent. The built-in class in brackets is the second base of the class:
code that catches RuntimeError, ValueError or TimeoutError catches the class, too. The *fault gateway* is the only
service that may do something to the containers of a cluster in Docker. StepFailed is defined here because several rooms
(packages) raise StepFailed. Every other class is defined in the room that it belongs to. A command that reads a stored
run ends with 64 on IncompleteRun, because the user named the wrong run.
"""

from __future__ import annotations

from typing import ClassVar


class VerifierError(Exception):
    """The base of every error that this project raises on purpose. A user sees the message of the error, and no
    traceback."""

    exit_code: ClassVar[int] = 70
    """The exit code of `kdv` when this error ends a command."""


class StepFailed(VerifierError, RuntimeError):
    """A step of a run cannot do its work. The message says why."""
