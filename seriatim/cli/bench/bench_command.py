"""The command `seriatim bench`, declared for typer."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from seriatim.cli.broker_access import BrokerAccess, read_access
from seriatim.cli.errors import CliError, UsageError
from seriatim.settings.amounts import read_duration, read_size
from seriatim.settings.checked import WrongValue
from seriatim.settings.shared_options import with_options

WORKERS_MAX = 256  # of a kind: each is a process


def _read(flag: str, read: Callable[[str], float], text: str) -> float:
    """Read an amount. Raises `UsageError`."""
    try:
        return read(text)
    except WrongValue as wrong:
        raise UsageError(f"{flag}: {wrong}") from None


@with_options(access=read_access)
def bench(
    context: typer.Context,
    subject: Annotated[
        str, typer.Argument(metavar="SUBJECT", help="Where to publish; with --subjects, below it.")
    ] = "bench",
    pubs: Annotated[
        int, typer.Option(min=0, max=WORKERS_MAX, metavar="N", help="Publishers: processes.")
    ] = 1,
    subs: Annotated[
        int, typer.Option(min=0, max=WORKERS_MAX, metavar="N", help="Subscribers: processes.")
    ] = 1,
    size: Annotated[
        str, typer.Option(metavar="SIZE", help="The size of a payload, such as 16 or 1KiB.")
    ] = "128",
    subjects: Annotated[
        int, typer.Option(min=1, max=1_000_000, metavar="N", help="How many subjects take turns.")
    ] = 1,
    count: Annotated[
        int | None,
        typer.Option(
            *("-n", "--count"), min=1, metavar="N", help="Messages, of all publishers together."
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How long to publish, such as 30s."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=100_000_000,
            metavar="N",
            help="Messages a second, of all publishers together, and their latency from when each"
            " was to be sent. By default as fast as it goes.",
        ),
    ] = None,
    ack: Annotated[
        bool,
        typer.Option(
            "--ack",
            metavar=" ",
            help="Wait for the answer to each message: its number, or JetStream's pub ack.",
        ),
    ] = False,
    window: Annotated[
        int,
        typer.Option(
            min=1,
            max=1_000_000,
            metavar="N",
            help="With --ack: how many messages of a publisher may wait for answers.",
        ),
    ] = 1000,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            metavar=" ",
            help="Publish first; then the subscribers read it all back from the journal.",
        ),
    ] = False,
    first: Annotated[
        int | None,
        typer.Option(
            "--from",
            min=1,
            metavar="N",
            help="Publish nothing; read what is there from number N up to the newest.",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", metavar=" ", help="Print the figures as JSON.")
    ] = False,
    plot: Annotated[
        bool, typer.Option("--plot", metavar=" ", help="Draw the distribution of the latencies.")
    ] = False,
    *,
    access: BrokerAccess,
) -> int:
    """Measure a broker, Seriatim or nats-server, with publishers and subscribers.

    Every message carries its place in a sequence. If one is missing, comes
    twice or is out of order, the exit status is 1. A broker with a journal keeps
    the messages, like all others.

    [bold]Examples[/bold]

    [cyan]seriatim bench --size 16 -n 10000000[/cyan]          as fast as it goes
    [cyan]seriatim bench --rate 50000 --duration 30s[/cyan]    latency at this rate
    [cyan]seriatim bench --ack --pubs 4 --window 100[/cyan]    wait for numbers
    [cyan]seriatim bench --replay[/cyan]                       publish, then read it back
    [cyan]seriatim bench 'orders.>' --from 1 --subs 4[/cyan]   read what is there
    [cyan]seriatim bench -s nats://127.0.0.1:4333[/cyan]       the same with a nats-server
    """
    from seriatim.cli.bench.bench_plan import BenchPlan, checked
    from seriatim.cli.bench.bench_report import BenchReport
    from seriatim.cli.bench.bench_run import run_bench
    from seriatim.cli.pubsub.sub import tell

    given = {
        f"--{name}"
        for name in context.params
        if (source := context.get_parameter_source(name)) is not None and source.name != "DEFAULT"
    }
    plan = BenchPlan(
        access=access,
        subject=subject,
        publishers=pubs,
        subscribers=subs,
        size=int(_read("--size", read_size, size)),
        subjects=subjects,
        count=count,
        seconds=None if duration is None else _read("--duration", read_duration, duration),
        rate=rate,
        ack=ack,
        window=window,
        replay=replay,
        first=first or 0,
    )
    access.full_url  # noqa: B018  # a wrong one is an error now
    result = run_bench(checked(plan, given))
    report = BenchReport(result)
    if json:
        print(report.as_json())
    else:
        report.print(plot)
    sys.stdout.flush()
    for note in report.notes():
        tell(note)
    if result.is_interrupted:
        tell("interrupted: these are the figures so far")
        raise KeyboardInterrupt
    problems = list(report.problems())
    if problems:
        raise CliError("; ".join(problems))
    return 0
