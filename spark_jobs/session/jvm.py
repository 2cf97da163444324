"""The JVM of a Spark session on this host: starts it, and passes on what it says.

Spark's launcher adds an incubator module of Java to each JVM, and every such JVM begins with a warning about it. No
option silences the warning, so it is left out here. Everything else that the JVM says is passed on, line by line.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import BinaryIO

from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

LEFT_OUT = b"WARNING: Using incubator modules: "
"""How the line begins that is not passed on (JEP 11: the launcher of Java warns of each incubator module)."""
LAST_WORDS_S = 5.0
"""How long to wait for the last lines of a JVM that did not start, in seconds."""


def launch(conf: SparkConf) -> JavaGateway:
    """Starts a JVM of Spark with the properties `conf`. Returns PySpark's gateway to it.

    What the JVM writes to its standard error is written to that of this process. If the JVM ends before it can be used,
    raises PySparkRuntimeError, after all that the JVM has said is passed on.
    """
    read_end, write_end = os.pipe()
    thread = threading.Thread(target=_pass_on, args=(os.fdopen(read_end, "rb"),), name="words of the JVM", daemon=True)
    thread.start()
    try:
        return launch_gateway(conf, {"stderr": write_end})  # type: ignore[no-untyped-call]
    except Exception:
        os.close(write_end)
        write_end = -1
        thread.join(LAST_WORDS_S)
        raise
    finally:
        if write_end >= 0:
            os.close(write_end)


def _pass_on(lines: BinaryIO) -> None:
    """Passes lines on until the JVM has closed its end. Goes on if nobody reads them, because a full pipe would stop
    the JVM."""
    with lines:
        for line in lines:
            if not line.startswith(LEFT_OUT):
                with suppress(OSError, ValueError):  # ValueError: the standard error of this process is closed
                    sys.stderr.write(line.decode(errors="replace"))
                    sys.stderr.flush()
