"""Compares the load of both clients, each with its full ledger, with Kafka's own ProducerPerformance.

`python bench/speed/clients.py [--records N] [--rounds K]` measures K rounds on the same brokers. A round is one load by
librdkafka, one by the Java client, and one run of ProducerPerformance, which writes no ledger. All three have the same
acks, idempotence, linger, batch.size, compression, payload, partitions and replicas, and send flat out. Which of them
is first changes from round to round.

A row holds the medians of one of them: records per second without the first tenth of the records, in which a JVM warms
up, and with it; CPU time per record of the process and its children, also of their start; and their peak memory. The
ratios are those of the medians of the rounds' ratios to ProducerPerformance.

The figures go to docs/results/clients-DATE.md, .json and .svg. The exit code is 1 if a ratio is a fifth worse than the
committed one (docs/results/ratios.json; `--commit` replaces it), or if the Java client sends less than LEAST of what
ProducerPerformance does. Three rounds take about four minutes.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, get_args

from bench.kit import ratios
from bench.kit.clusters import Bench, running
from bench.kit.loads import Case, Measured, ours, theirs
from bench.kit.saved import option_parser, publish
from delivery_verifier.model.client import CLIENTS, Client
from delivery_verifier.model.scenario import Load

LEAST = 0.4
"""The least ratio of the Java client's records per second to those of ProducerPerformance. Below it, the load is what
is measured, and not the client."""
PEER = "ProducerPerformance"
USUAL = 2_000_000
Rounds = list[dict[str, Measured]]


def main() -> int:
    """Measures the rounds, publishes the figures, and returns the exit code."""
    parser = option_parser(__doc__)
    parser.add_argument("--records", type=int, default=USUAL)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=262_144, metavar="BYTES", help="batch.size of all three")
    ratios.add_options(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        load = Load(pacing="flat_out", deadline_s=3600)
        with running(Path(folder), arguments.records, load) as bench:
            measured = [_round(bench, each, arguments) for each in range(arguments.rounds)]
    rates = {name: _ratio(measured, name, lambda each: each.steady_rate) for name in _names(measured)}
    named = {f"{name} / ProducerPerformance": rates[name] for name in rates if name != PEER}
    kind, sized = ratios.by_size("clients", named, arguments.records, USUAL)
    publish(
        kind,
        "Both clients beside ProducerPerformance",
        [_row(measured, name, rates[name]) for name in _names(measured)],
        {name: _median(measured, name, lambda each: each.steady_rate) for name in _names(measured)},
        [
            f"{arguments.rounds} rounds of {arguments.records:,} records of 100 B, batch.size={arguments.batch_size}; "
            f"medians. Both clients write the full ledger, ProducerPerformance none. {_spread(measured)}"
        ],
    )
    return 1 if rates["java"] < LEAST else ratios.guard(sized, arguments.commit)


def _round(bench: Bench, number: int, arguments: Any) -> dict[str, Measured]:
    """Measures each of the three once, and prints what it shows. The order depends on the `number` of the round."""
    names = [*get_args(Client), PEER]
    results = {}
    for name in names[number % 3 :] + names[: number % 3]:
        topic, more = f"{name}-{number}", (("batch.size", arguments.batch_size),)
        if name == PEER:
            results[name] = theirs(bench, Case(arguments.records, more=more), topic, arguments.batch_size)
        else:
            results[name] = ours(bench, Case(arguments.records, client=name, more=more), topic)
        print(name, results[name], flush=True)
    return results


def _names(measured: Rounds) -> list[str]:
    return sorted(measured[0])


def _median(measured: Rounds, name: str, figure: Any) -> float:
    return statistics.median(figure(each[name]) for each in measured)


def _ratio(measured: Rounds, name: str, figure: Any) -> float:
    return round(statistics.median(figure(each[name]) / figure(each[PEER]) for each in measured), 3)


def _spread(measured: Rounds) -> str:
    """Returns the ratio of each round in a sentence, so that a page shows how far they lie apart."""
    ratios_of = {
        name: ", ".join(f"{each[name].steady_rate / each[PEER].steady_rate:.3f}" for each in measured)
        for name in _names(measured)
        if name != PEER
    }
    return f"Ratio of each round: {'; '.join(f'{name} {text}' for name, text in ratios_of.items())}."


def _cpu_us(each: Measured) -> float:
    return (each.cpu_s + each.start_cpu_s) / each.records * 1e6


def _row(measured: Rounds, name: str, rate: float) -> dict[str, Any]:
    """Returns the line of one of the three in the table."""
    return {
        "sender": f"{CLIENTS[name].title} {CLIENTS[name].default}".rstrip() if name in get_args(Client) else name,
        "records/s": round(_median(measured, name, lambda each: each.steady_rate)),
        "ratio": rate,
        "with the first tenth": None if name == PEER else round(_median(measured, name, lambda each: each.rate)),
        "CPU µs/record": round(_median(measured, name, _cpu_us), 2),
        "ratio of CPU": _ratio(measured, name, _cpu_us),
        "peak MB": round(_median(measured, name, lambda each: each.peak_mb)),
        "ratio of memory": _ratio(measured, name, lambda each: each.peak_mb),
    }


if __name__ == "__main__":
    sys.exit(main())
