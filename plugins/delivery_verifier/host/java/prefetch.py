"""Prefetch: the jars of a Kafka version and of Spark's connector, so that no run has to wait for them."""

from __future__ import annotations

import sys

from delivery_verifier.host.java.jars import JarError, kafka_jars, spark_jars


def main() -> int:
    """`python -m delivery_verifier.host.java.prefetch [VERSION]`: exit code 1 with one line if a jar cannot be had."""
    try:
        kafka_jars(sys.argv[1] if len(sys.argv) > 1 else "4.3.1", print)
        spark_jars(print)
    except JarError as error:
        print(f"kdv: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
