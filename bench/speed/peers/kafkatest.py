"""kafkatest's way to verify: the set of acknowledged values minus the set of values that a consumer printed.

`python bench/speed/peers/kafkatest.py PRODUCED CONSUMED` is one part of bench/speed/end_to_end.py. PRODUCED and
CONSUMED hold what Kafka's VerifiableProducer and VerifiableConsumer printed: one line of JSON per event. Prints the
number of acknowledged values, and returns 1 if any of them is missing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path


def main() -> int:
    """Compares the two sets. Returns the exit code."""
    produced, consumed = Path(sys.argv[1]), Path(sys.argv[2])
    acknowledged = set(values(produced, "producer_send_success"))
    missing = acknowledged - set(values(consumed, "record_data"))
    print(len(acknowledged), "acknowledged,", len(missing), "missing")
    return 1 if missing or not acknowledged else 0


def values(file: Path, event: str) -> Iterator[str]:
    """Yields the value of each line of `file` that reports `event`. Lines that are no JSON are left out."""
    with file.open() as lines:
        for line in lines:
            if line.startswith("{"):
                data = json.loads(line)
                if data.get("name") == event:
                    yield data["value"]


if __name__ == "__main__":
    sys.exit(main())
