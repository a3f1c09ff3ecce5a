"""The commands `record`, `play` and `pcap`, declared for typer."""

from typing import Annotated

import typer

from seriatim.cli.broker_access import AnswerTimeout, BrokerAccess, read_access
from seriatim.cli.cquencer.destn import CodecName, Filtered
from seriatim.cli.errors import UsageError
from seriatim.cli.journal.journal_commands import Since as From
from seriatim.cli.journal.journal_commands import Until
from seriatim.cli.pubsub.past_options import First, Latest, Since
from seriatim.settings.shared_options import First as FirstNumber
from seriatim.settings.shared_options import Last as LastNumber
from seriatim.settings.shared_options import with_options

Output = Annotated[
    str,
    typer.Option(
        *("-o", "--output"),
        metavar="FILE",
        help="The file; one that exists is continued. - for standard output, the default.",
        show_default=False,
    ),
]


@with_options(access=read_access)
def record(
    subjects: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SUBJECT]...",
            help="The subjects to record, by default all; * and > are wildcards.",
            show_default=False,
        ),
    ] = None,
    output: Output = "-",
    count: Annotated[
        int,
        typer.Option("-n", "--count", min=0, metavar="N", help="Stop after this many. 0: never."),
    ] = 0,
    first: First = None,
    last: Annotated[
        int | None, typer.Option("--to", min=1, metavar="N", help="End at number N.")
    ] = None,
    since: Since = None,
    latest: Latest = False,
    until_now: Annotated[
        bool,
        typer.Option(
            *("-e", "--until-now"), metavar=" ", help="End at the newest message there is now."
        ),
    ] = False,
    reconnect: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How long to try to reconnect. By default forever.",
            show_default=False,
        ),
    ] = None,
    *,
    access: BrokerAccess,
) -> None:
    """Record what is published, in a file that can be continued. Ctrl-C ends it.

    It begins with what is published from now on, or in the past. A file that exists is
    continued after its last number. After a break it goes on with the exact next number;
    lost numbers are reported. docs/recording.md has the format.

    [bold]Examples[/bold]

    [cyan]seriatim record -o all.rec[/cyan]                everything from now on
    [cyan]seriatim record 'orders.>' -o orders.rec --from 1[/cyan]
    [cyan]seriatim record -o day.rec --since 1d -e[/cyan]  what is there, without waiting
    [cyan]seriatim record --from 1 | zstd > all.rec.zst[/cyan]
    """
    from seriatim.cli.pubsub import pub
    from seriatim.cli.recording.message_recorder import RecordOptions
    from seriatim.cli.recording.message_recorder import record as run

    for subject in subjects or ():
        pub.checked_subject(subject, wildcards=True)
    options = RecordOptions(subjects or [], first, last, since, latest, until_now, count, reconnect)
    run(access, options, output)


@with_options(access=read_access)
def play(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A recording; - for standard input.")],
    subject: Annotated[
        str,
        typer.Option(
            metavar="SUBJECT",
            help="Publish everything to this subject.",
            show_default=False,
        ),
    ] = "",
    prefix: Annotated[
        str,
        typer.Option(
            metavar="SUBJECT",
            help="Put this, and a dot, in front of each subject.",
            show_default=False,
        ),
    ] = "",
    speed: Annotated[
        str,
        typer.Option(
            metavar="FACTOR|max", help="How many times faster than recorded; max: without waiting."
        ),
    ] = "1",
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            metavar="N",
            help="Messages a second, instead of a speed.",
            show_default=False,
        ),
    ] = None,
    first: FirstNumber = None,
    last: LastNumber = None,
    since: From = None,
    until: Until = None,
    ack: Annotated[
        bool,
        typer.Option(
            "--ack/--no-ack",
            metavar=" ",
            help="Wait for the number of each message, and publish it once. A server without"
            " numbers needs --no-ack.",
        ),
    ] = True,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            metavar=" ",
            help="Publish again what was played within the last minutes, too.",
        ),
    ] = False,
    timeout: AnswerTimeout = 60.0,
    *,
    access: BrokerAccess,
) -> None:
    """Publish a recording again, at its own pace or another one.

    A message that is played again within the broker's journal.dedupe_window (2 minutes) is
    published once. So after a break, repeat the command; later than that, add the --from that
    its last message names.

    [bold]Examples[/bold]

    [cyan]seriatim play orders.rec[/cyan]                      as it was
    [cyan]seriatim play orders.rec --speed max --from 88485[/cyan]
    [cyan]seriatim play orders.rec --rate 500 --prefix test[/cyan]
    [cyan]zstd -dc all.rec.zst | seriatim play - --speed 10[/cyan]
    [cyan]seriatim play all.rec --no-ack -s nats://nats:4222[/cyan]   a plain nats-server
    """
    import time

    from seriatim.cli.moment import moment
    from seriatim.cli.pubsub import pub
    from seriatim.cli.recording.play import PlayOptions, read_speed
    from seriatim.cli.recording.play import play as run

    if subject and prefix:
        raise UsageError("give --subject or --prefix, not both")
    if rate is not None and speed != "1":
        raise UsageError("give --speed or --rate, not both")
    if again and not ack:
        raise UsageError("--no-ack publishes everything again; leave out --again")
    if last is not None and first is not None and last < first:
        raise UsageError(f"--to {last} is before --from {first}")
    now = time.time_ns()
    options = PlayOptions(
        path=file,
        subject=subject and pub.checked_subject(subject, wildcards=False),
        prefix=prefix and pub.checked_subject(prefix.removesuffix("."), wildcards=False),
        first=first or 0,
        last=last,
        since=0 if since is None else moment(since, now),
        until=None if until is None else moment(until, now),
        speed=read_speed(speed),
        rate=rate or 0.0,
        ack=ack,
        again=again,
        timeout=timeout,
    )
    raise typer.Exit(0 if run(access, options) else 1)


def pcap(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Captures; - for standard input.")
    ],
    output: Annotated[
        str,
        typer.Option(
            *("-o", "--output"),
            metavar="FILE",
            help="The recording to write. - for standard output, the default.",
            show_default=False,
        ),
    ] = "-",
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP[:PORT]",
            help="The feed's group; by default the only one there is. Twice for two feeds of the"
            " same messages.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, metavar="PORT", help="Its port.", show_default=False),
    ] = None,
    codec: CodecName = "netstring",
    filtered: Filtered = ">",
    force: Annotated[
        bool, typer.Option("--force", metavar=" ", help="Replace an existing file.")
    ] = False,
) -> None:
    """Turn captures of a multicast feed into a recording.

    Reads files of tcpdump, dumpcap and Wireshark, in the order given. Gaps, duplicates and
    what cannot be read are reported; then the status is 1. It needs the package dpkt.

    [bold]Examples[/bold]

    [cyan]tcpdump -i eth0 -s 0 -w feed.pcap udp port 1234[/cyan]
    [cyan]seriatim pcap feed.pcap -o feed.rec --codec moldudp64[/cyan]
    [cyan]seriatim pcap a.pcap b.pcap -o feed.rec --group 239.0.0.1 --group 239.0.0.2[/cyan]
    [cyan]tcpdump -i eth0 -s 0 -U -w - udp port 1234 | seriatim pcap - -o feed.rec[/cyan]
    """
    from seriatim.cli.pubsub import pub
    from seriatim.cli.recording.feed_recording import FeedOptions, read_group, record_captures

    pub.checked_subject(filtered, wildcards=True)
    groups = [read_group(one) for one in group or ()]
    options = FeedOptions(groups, port or 0, codec, filtered)
    raise typer.Exit(0 if record_captures(files, options, output, force) else 1)
