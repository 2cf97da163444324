"""Java classes whose methods PySpark calls for each function of a column. Python remembers these classes.

PySpark sends three commands to the JVM for each such function: it asks for the class, asks for the method, and calls
the method. With the remembered class, it sends one command.
"""

from __future__ import annotations

from py4j.java_gateway import JavaClass, JavaMember  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

REMEMBERED = ("functions", "org.apache.spark.sql.functions", "PythonUtils")
"""The names by which PySpark asks for the classes."""


class _RememberingClass(JavaClass):  # type: ignore[misc]
    """A Java class that asks the JVM only once for each static method. Py4J would ask at each call."""

    def __getattr__(self, name: str) -> object:
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):
            self.__dict__[name] = member
        return member


def remember(spark: SparkSession) -> None:
    """Makes Python remember the classes REMEMBERED and their static methods. The session must not be a remote one."""
    jvm = spark.sparkContext._jvm
    for name in REMEMBERED:
        java_class = getattr(jvm, name)
        setattr(jvm, name, _RememberingClass(java_class._fqn, java_class._gateway_client))
