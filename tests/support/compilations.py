"""Counts how often Spark has compiled code that it generated for queries."""

from __future__ import annotations

from pyspark.sql import SparkSession


def compilations(spark: SparkSession) -> int:
    """Returns how many classes of generated code the JVM of `spark` has compiled. Code that is equal to earlier code is
    not compiled again, and not counted again."""
    source = spark.sparkContext._jvm.org.apache.spark.metrics.source.CodegenMetrics
    return int(source.METRIC_COMPILATION_TIME().getCount())
