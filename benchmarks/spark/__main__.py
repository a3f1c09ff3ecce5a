"""Spark and the broker on one machine: how many rows per second, end to end.

    python -m benchmarks.spark [--only read-batch ...] [--rows 2000000] [--runs 3] [--quick]

Every scenario starts its own broker and shares one local Spark session with the others. The peers
(the same rows without a network, a plain Kafka-like server, Spark's own functions) alternate with
Seriatim. Rates are by the clock; next to them is the CPU that the broker used.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence

from benchmarks import machine
from benchmarks.report import table
from benchmarks.spark import spark_archive, spark_audit, spark_cardinal, spark_read, spark_sink
from benchmarks.spark.runs import Run, Scenario
from pyspark_seriatim.jobs.running.spark_session import spark_session

SCENARIOS: dict[str, Scenario] = {
    **spark_read.SCENARIOS,
    **spark_sink.SCENARIOS,
    **spark_archive.SCENARIOS,
    **spark_cardinal.SCENARIOS,
    **spark_audit.SCENARIOS,
}
ROWS = 2_000_000
QUICK = 10  # a fraction
HEAD = ("scenario", "rows", "rows/s", "from", "to", "broker us/row", "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen scenarios, and print a table."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    options.add_argument("--only", action="append", choices=SCENARIOS, metavar="NAME")
    options.add_argument("--rows", type=int, default=ROWS, help=f"default {ROWS}")
    options.add_argument("--runs", type=int, default=3, help="of each; default 3")
    options.add_argument("--quick", action="store_true", help="a tenth of the rows, once")
    given = options.parse_args(arguments)
    rows, runs = (given.rows // QUICK, 1) if given.quick else (given.rows, given.runs)
    wanted = given.only or list(SCENARIOS)
    session = spark_session("benchmarks")
    found: dict[str, list[Run]] = {name: [] for name in wanted}
    for _ in range(runs):
        for name in wanted:
            found[name].append(SCENARIOS[name](session, rows))
            print(f"{name}: {found[name][-1].rate:,.0f} rows/s", file=sys.stderr)
    session.stop()
    about = machine.description([])
    print(f"{about['processor']}, Python {about['python']}, {about['seriatim']}\n")
    print(table(HEAD, [_row(name, results) for name, results in found.items()]), end="")
    return 0


def _row(name: str, results: Sequence[Run]) -> list[str]:
    rates = sorted(result.rate for result in results)
    burden = statistics.median(r.broker_seconds / max(r.rows, 1) for r in results)
    return [
        *(name, f"{results[0].rows:,}", f"{statistics.median(rates):,.0f}"),
        *(f"{rates[0]:,.0f}", f"{rates[-1]:,.0f}", f"{burden * 1e6:.2f}" if burden else ""),
        results[-1].note,
    ]


if __name__ == "__main__":
    sys.exit(main())
