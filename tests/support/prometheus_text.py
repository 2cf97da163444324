"""A strict reader of Prometheus' text format, version 0.0.4, as a textfile collector takes it.

The grammar: https://prometheus.io/docs/instrumenting/exposition_formats/. Beside it, the reader demands what the
collector and the naming practices demand: no sample has a time, each metric has HELP and TYPE before its samples and
once, `_total` is for counters alone, and no sample occurs twice.
"""

from __future__ import annotations

import re
from typing import NamedTuple

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(?:,|$)')
SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Read(NamedTuple):
    """What a file says: the type of each metric, and the value of each sample by its metric and labels."""

    types: dict[str, str]
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float]

    def value(self, name: str, **labels: str) -> float:
        """The value of a sample. Raises KeyError if there is none."""
        return self.samples[name, frozenset(labels.items())]


def read(text: str) -> Read:
    """Reads a file. Raises ValueError for the first line that is not allowed."""
    if text and not text.endswith("\n"):
        raise ValueError("the last line has no end")
    found, helped, current = Read({}, {}), set[str](), ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            if current in helped or not NAME.fullmatch(current):
                raise ValueError(f"a second or wrong HELP: {line}")
            helped.add(current)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            if name != current or name in found.types or kind not in ("gauge", "counter"):
                raise ValueError(f"a TYPE at the wrong place, or of no known kind: {line}")
            if name.endswith("_total") != (kind == "counter"):
                raise ValueError(f"_total is for counters alone: {line}")
            found.types[name] = kind
        else:
            _add(found, current, line)
    return found


def _add(found: Read, current: str, line: str) -> None:
    sample = SAMPLE.fullmatch(line)
    if sample is None or sample["name"] != current or current not in found.types:
        raise ValueError(f"no sample of {current}, without a time: {line}")
    labels, rest = {}, sample["labels"] or ""
    while rest:
        label = LABEL.match(rest)
        if label is None or label[1] in labels:
            raise ValueError(f"wrong labels: {line}")
        labels[label[1]] = re.sub(r'\\[\\"n]', lambda match: _ESCAPES[match[0]], label[2])
        rest = rest[label.end() :]
    key = current, frozenset(labels.items())
    if key in found.samples:
        raise ValueError(f"the sample occurs twice: {line}")
    found.samples[key] = float(sample["value"])
