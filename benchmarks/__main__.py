"""`python -m benchmarks`: run scenarios on servers, print the tables, and write JSON."""

import argparse
import fnmatch
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import machine, report
from benchmarks.errors import BenchmarkError
from benchmarks.runner import Result, run_scenario
from benchmarks.scenarios import ALL, Scenario
from benchmarks.servers import (
    KNOWN,
    ORIGINAL,
    REDIS_REMEDY,
    Server,
    original,
    server_from_option,
)

RESULTS = Path(__file__).parent / "results" / "latest.json"
EXAMPLES = """\
examples:
  python -m benchmarks                                  everything, about an hour
  python -m benchmarks --quick                          everything, once and short
  python -m benchmarks --only 1:1-16 --runs 3
  python -m benchmarks --server nats-server --server seriatim-uvloop --only 1:1-128
  python -m benchmarks --server-cmd 'trial=/tmp/trial/bin/seriatim serve -a 127.0.0.1 -p {port}'
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        default=[],
        help="this scenario, or those of a pattern such as 'kept-*'; may be repeated",
    )
    made.add_argument(
        "--server", action="append", metavar="NAME", default=[],
        help="this server; may be repeated; default: those of the scenario; "
        f"known: {', '.join(KNOWN)}",
    )  # fmt: skip
    made.add_argument(
        "--server-cmd", action="append", metavar="NAME[:FRAME]=COMMAND", default=[],
        help="one more server, or another command for a known one; {port} in it is the port",
    )  # fmt: skip
    made.add_argument(
        "--cq", type=Path, metavar="PATH", help="the original cquencer's program, to compare with"
    )
    made.add_argument("--runs", type=int, metavar="N", help="runs of each; default 5")
    made.add_argument(
        "--scale", type=float, metavar="X", default=1.0, help="X times the messages; default 1"
    )
    made.add_argument("--quick", action="store_true", help="the same as --scale 0.1 --runs 1")
    made.add_argument(
        "--json", type=Path, metavar="FILE", default=RESULTS, help="default: %(default)s"
    )
    made.add_argument("--list", action="store_true", help="list scenarios and servers")
    return made


def chosen_scenarios(names: Sequence[str]) -> list[Scenario]:
    """Return the scenarios with these names or patterns; all, if there are none."""
    known = [scenario.name for scenario in ALL]
    chosen = {name: set(fnmatch.filter(known, name)) for name in names}
    for name, found in chosen.items():
        if not found:
            raise BenchmarkError(f"--only {name}: no such scenario; there are {', '.join(known)}")
    wanted = set().union(*chosen.values()) if names else set(known)
    return [scenario for scenario in ALL if scenario.name in wanted]


def chosen_servers(
    names: Sequence[str], commands: Sequence[str], cq: Path | None
) -> Callable[..., list[Server]]:
    """Return the function that chooses a scenario's servers: those named, or its own.

    Servers given by a command run everything they can; one with a known name replaces that. The
    original cq runs only if it is given, and Redis only if it is there.
    """
    extra = {server.name: server for server in map(server_from_option, commands)}
    known = KNOWN | extra
    absent = {}  # each server that cannot run, and what to do about it
    if cq is not None:
        known[ORIGINAL] = original(cq)
    else:
        absent[ORIGINAL] = "say where its program is, with --cq PATH"
    if shutil.which("redis-server") is None and "redis" not in extra:
        absent["redis"] = f"there is no redis-server on the PATH: {REDIS_REMEDY}"
    for name in absent.keys() & set(names):
        raise BenchmarkError(f"--server {name}: {absent[name]}")
    for name in names:
        if name not in known:
            raise BenchmarkError(f"--server {name}: no such server; there are {', '.join(known)}")

    def servers_of(scenario: Scenario) -> list[Server]:
        new = [name for name in extra if name not in KNOWN or names]
        own = list(names) or [*new, *scenario.servers]
        chosen = [known[name] for name in dict.fromkeys((*own, *new)) if name not in absent]
        return [server for server in chosen if scenario.fits(server)]

    return servers_of


def run(options: argparse.Namespace, console: Console) -> list[Result]:
    """Run what the options ask for."""
    scenarios = chosen_scenarios(options.only)
    servers_of = chosen_servers(options.server, options.server_cmd, options.cq)
    servers = {server.name: server for one in scenarios for server in servers_of(one)}
    factor = options.scale * (0.1 if options.quick else 1)
    runs = options.runs or (1 if options.quick else 5)
    header = machine.description(list(servers.values()))
    results: list[Result] = []
    with console.status("") as status:
        for scenario in scenarios:
            chosen = servers_of(scenario)
            results += run_scenario(scenario.scaled(factor), chosen, runs, status.update)
    print(report.as_text(header, results), end="", flush=True)
    report.write_json(options.json, header, results)
    console.print(f"written: {options.json}", style="dim", highlight=False)
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 if every run was counted."""
    options = parser().parse_args(arguments)
    console = Console()
    if options.list:
        for scenario in ALL:
            console.print(f"{scenario.name:16} {scenario.about}", highlight=False)
        for server in KNOWN.values():
            console.print(f"{server.name:20} {server.command}", highlight=False, markup=False)
        return 0
    try:
        results = run(options, console)
    except BenchmarkError as error:
        console.print(f"benchmarks: {error}", style="red", highlight=False, markup=False)
        return 1
    except KeyboardInterrupt:
        return 130
    return 1 if any(result.errors for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
