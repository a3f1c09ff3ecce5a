"""The commands of `seriatim`, declared for typer: flags, help, and the functions they call."""

import os
import sys
from copy import copy
from functools import cache
from typing import Annotated, Any, cast

import typer

from seriatim.cli.batches import app as batches
from seriatim.cli.bench.bench_command import bench
from seriatim.cli.broker_access import AnswerTimeout, BrokerAccess, read_access
from seriatim.cli.cardinal.cardinal_commands import app as cardinal
from seriatim.cli.check.check_command import check
from seriatim.cli.cluster.cluster_commands import app as cluster
from seriatim.cli.completion import SettingsCommand, command_words, completion, one_of
from seriatim.cli.context.context_commands import app as context_app
from seriatim.cli.cquencer.cq import PortFirst, cq
from seriatim.cli.cquencer.destn import destn
from seriatim.cli.cquencer.sendr import sendr
from seriatim.cli.errors import UsageError
from seriatim.cli.flags import CONFIG, HELP, Flag, given_settings, normalise
from seriatim.cli.journal.journal_commands import app as journal
from seriatim.cli.man_page import man
from seriatim.cli.pubsub.past_options import First, Last, Latest, Reconnect, Since, UntilNow
from seriatim.cli.recording.recording_commands import pcap, play, record
from seriatim.cli.spark import app as spark
from seriatim.cli.stream.stream_commands import app as stream
from seriatim.cli.top.top_command import top
from seriatim.cli.user.user_commands import app as user
from seriatim.settings.shared_options import Json as JsonObject
from seriatim.settings.shared_options import with_options
from seriatim.settings.usage import usage_text

app = typer.Typer(
    name="seriatim",
    help="A pub/sub broker for NATS clients that gives every message one number, in one order.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    epilog="Each command has its own help: [bold]seriatim serve --help[/bold]",
)
GROUPS = (context_app, journal, batches, cardinal, cluster, spark, stream, user)
for group in GROUPS:
    app.add_typer(group)

OWN_FLAGS = {
    "serve": HELP | CONFIG,
    "config": HELP
    | CONFIG
    | {
        "format": Flag("--format", True),
        "all": Flag("--all", False),
        "from": Flag("--from", True),
    },
    "doctor": HELP | CONFIG | {"json": Flag("--json", False), "compare": Flag("--compare", True)},
}
# Commands that show what the others are; and the shells' completion, which gives no arguments.
OF_ALL = ("help", "man", "completion")
FORMATS = ("table", "toml", "markdown")
# Typer does not export the base class of its errors about arguments.
USAGE_ERROR: type[Exception] = cast(type[Exception], typer.BadParameter.__mro__[1])
PORT_ALONE = "flags belong to a command, such as `seriatim serve -p 4222`"

ConfigFile = Annotated[
    str | None,
    typer.Option("-c", "--config", metavar="FILE", help="A TOML file of settings."),
]

CommandWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[COMMAND [SUBCOMMAND]]",
        help="A command, such as `stream ls`.",
        show_default=False,
        autocompletion=command_words,
    ),
]


def _show_all_help(context: typer.Context, asked: bool) -> None:
    """Print the help of a command with its hidden options, and end it."""
    if asked:
        for option in context.command.params:
            option.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all",
        is_eager=True,
        callback=_show_all_help,
        metavar=" ",
        help="Show the flags of all settings, and exit.",
    ),
]
SETTINGS_GIVEN = given_settings()

# Parameters of `sub`.
Queue = Annotated[
    str | None,
    typer.Option("-q", "--queue", metavar="NAME", help="Share the messages in this queue group."),
]
Colour = Annotated[
    bool | None,
    typer.Option(
        "--colour/--no-colour",
        metavar=" ",
        help="Use colours. By default on a terminal, unless NO_COLOR, CLICOLOR=0 or TERM=dumb"
        " is set.",
        show_default=False,
    ),
]
WholeFrame = Annotated[
    bool,
    typer.Option("--frame", metavar=" ", help="Print the frame as received, a nested netstring."),
]
Raw = Annotated[
    bool,
    typer.Option("--raw", metavar=" ", help="Print only the payloads, with nothing between them."),
]
Json = Annotated[
    bool, typer.Option("--json", metavar=" ", help="Print JSON, one message a line, with its time.")
]


@cache
def command_tree() -> Any:
    """Make the commands of what is declared here, once a process: it takes typer 50 ms."""
    return typer.main.get_command(app)


@cache
def tree_of(name: str) -> Any:
    """Make the tree with one of the commands alone, in a tenth of the time.

    All of it for a name that is none, for the error that says which there are, and for the
    commands that look at the others.
    """
    known = [one for one in app.registered_commands if _name_of(one) == name]
    groups = [
        group
        for group in app.registered_groups
        if group.typer_instance is not None and group.typer_instance.info.name == name
    ]
    if name in OF_ALL or not (known or groups):
        return command_tree()
    alone = copy(app)
    alone.registered_commands, alone.registered_groups = known, groups
    return typer.main.get_group(alone)


def _name_of(command: Any) -> str:
    return command.name or typer.main.get_command_name(command.callback.__name__)


def run(argv: list[str]) -> int:
    """Run the command in `argv`. Raises `CliError`, and any exception of the command."""
    problems: list[str] = []
    if argv in ([], *([group.info.name] for group in GROUPS)):
        argv = [*argv, "--help"]
    if argv[0] in OWN_FLAGS:
        done = normalise(argv[1:], OWN_FLAGS[argv[0]])
        argv, problems = [argv[0], *done.arguments], done.problems
    elif argv and argv[0] in ("-v", "-version", "--version"):
        argv = ["version", *argv[1:]]
    try:
        status = tree_of(argv[0])(
            args=argv, obj=problems, standalone_mode=False, prog_name="seriatim"
        )
    except typer.Abort as abort:
        raise KeyboardInterrupt from abort
    except typer.Exit as leave:
        return leave.exit_code
    except USAGE_ERROR as error:
        raise UsageError(_usage(error, argv)) from error
    return status if isinstance(status, int) else 0


def _usage(error: Any, argv: list[str]) -> str:
    text = usage_text(error)
    if argv and argv[0].startswith("-") and argv[0] not in ("-h", "--help"):
        return f"{text}; {PORT_ALONE}"
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "seriatim"
    return f"{text}{' See' if text.endswith('?') else '; see'} `{command} --help`"


@app.command(cls=SettingsCommand)
@with_options(flags=SETTINGS_GIVEN)
def serve(
    context: typer.Context,
    config: ConfigFile = None,
    help_all: HelpAll = False,
    *,
    flags: dict[str, Any],
) -> None:
    """Run the broker.

    Flags have nats-server's names. A flag wins over a SERIATIM_* variable,
    which wins over the file of --config; all invalid settings are reported
    together. These are the flags that people use; --help-all shows all.
    [bold]seriatim config[/bold] explains each setting.

    [bold]Examples[/bold]

    [cyan]seriatim serve[/cyan]                      clients on port 4222
    [cyan]seriatim serve -p 4222 -m 8222[/cyan]      with monitoring on port 8222
    [cyan]seriatim serve -c broker.toml -D[/cyan]    a file of settings, and debug lines
    [cyan]seriatim serve --listen 0.0.0.0:4223,frame=none[/cyan]
                                        a second port, without frames
    [cyan]seriatim serve --signal reload=PID[/cyan]    tell a running one: reload, reopen, ldm,
                                        quit or stop; PID, or its pid file
    """
    from broker.settings.resolve import resolve
    from seriatim.cli.serve import become_broker

    become_broker(resolve(flags, os.environ, config, context.obj or ()))


@app.command(cls=SettingsCommand)
@with_options(flags=SETTINGS_GIVEN)
def config(
    context: typer.Context,
    config: ConfigFile = None,
    help_all: HelpAll = False,
    format: Annotated[
        str,
        typer.Option(
            metavar="|".join(FORMATS), help="What to print.", autocompletion=one_of(FORMATS)
        ),
    ] = "table",
    show_all: Annotated[
        bool, typer.Option("--all", metavar=" ", help="All settings, not only the common ones.")
    ] = False,
    from_nats: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Translate a configuration of nats-server, instead.",
            show_default=False,
        ),
    ] = "",
    *,
    flags: dict[str, Any],
) -> int:
    """Print the effective settings, where each comes from, and what it is for.

    Shows the settings that people use, and all that are set; the others with --all.
    Takes the same flags, variables and file as [bold]seriatim serve[/bold], and starts nothing.

    With --from it translates a configuration of nats-server. Settings without an
    equivalent are listed on standard error; then the exit status is 2.

    [bold]Examples[/bold]

    [cyan]seriatim config --all[/cyan]                 every setting, explained
    [cyan]seriatim config -c broker.toml -p 4333[/cyan]    check a file together with a flag
    [cyan]seriatim config --format toml > broker.toml[/cyan]
                                          a file to start from
    [cyan]seriatim config --from nats.conf > broker.toml[/cyan]
    """
    from broker.settings.resolve import resolve
    from seriatim.cli import explain

    if from_nats:
        from seriatim.cli.from_nats.translated_file import print_translation

        if flags or config or show_all or format != "table" or context.obj:
            raise UsageError("--from translates one file, and takes no other flags")
        return print_translation(from_nats)
    if format not in FORMATS:
        context.obj.append(f'--format: "{format}" is not one of {", ".join(FORMATS)}')
    effective = resolve(flags, os.environ, config, context.obj)
    for line in effective.sources.warnings:
        print(f"seriatim: {line}", file=sys.stderr)
    if format == "table":
        explain.print_table(effective, show_all)
    elif format == "toml":
        print(explain.as_toml(effective, show_all), end="")
    else:
        print(explain.as_markdown(effective), end="")
    return 0


@app.command()
@with_options(flags=SETTINGS_GIVEN)
def doctor(
    context: typer.Context,
    config: ConfigFile = None,
    help_all: HelpAll = False,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Compare the clock with that of another broker, by its monitoring: http://HOST:PORT"
            " (repeatable).",
        ),
    ] = None,
    json: JsonObject = False,
    *,
    flags: dict[str, Any],
) -> int:
    """Examine this machine for a broker with these settings.

    Takes the same flags, variables and file as [bold]seriatim serve[/bold], and starts
    nothing. It measures limits, buffers, multicast, the disk of the store and the
    clock. Where something is not well, it says why that matters, and what to do.
    A running broker does not notice it; if one uses the store, the limits of its
    process are examined.

    The exit status is 0 if all is well, 1 if something failed, 2 if there are
    only warnings. Hints do not count.

    [bold]Examples[/bold]

    [cyan]seriatim doctor[/cyan]                       for a broker with the defaults
    [cyan]seriatim doctor -c /etc/seriatim/broker.toml --json[/cyan]
    [cyan]seriatim doctor --sync always --store_dir /data/seriatim[/cyan]
    [cyan]seriatim doctor --feed 239.0.0.1:1234,interface=eth0[/cyan]
    [cyan]seriatim doctor --compare http://10.0.0.7:8222[/cyan]
    """
    from seriatim.cli.doctor.doctor_command import run_doctor

    return run_doctor(flags, config, compare or (), json, context.obj or ())


@app.command()
def version() -> None:
    """Print the version, the build, the Python and the event loop."""
    from seriatim.cli.version_command import facts

    for name, value in facts().items():
        print(f"{name:<10}{value}")


@app.command()
@with_options(access=read_access)
def pub(
    subject: Annotated[
        str,
        typer.Argument(metavar="SUBJECT", help="The subject to publish to.", show_default=False),
    ],
    payload: Annotated[
        str | None,
        typer.Argument(
            metavar="PAYLOAD",
            help="The payload; - for standard input, which is also the default in a pipe.",
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("-f", "--file", metavar="FILE", help="Read the payload from this file."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, metavar="N", help="How many times to publish.")] = 1,
    reply: Annotated[
        str, typer.Option(metavar="SUBJECT", help="The subject for replies.", show_default=False)
    ] = "",
    header: Annotated[
        list[str] | None,
        typer.Option("-H", "--header", metavar="'KEY: VALUE'", help="A header; repeatable."),
    ] = None,
    ack: Annotated[
        bool,
        typer.Option(
            "--ack",
            metavar=" ",
            help="Wait for the number of the message, and print it. After a break it is sent"
            " again, and published once.",
        ),
    ] = False,
    timeout: AnswerTimeout = 5.0,
    *,
    access: BrokerAccess,
) -> None:
    """Publish a message.

    [bold]Examples[/bold]

    [cyan]seriatim pub orders.new 'hello world'[/cyan]
    [cyan]seriatim pub orders.new 'hello world' --ack[/cyan]    prints its number, say 88485
    [cyan]echo hello | seriatim pub orders.new -H 'Nats-Msg-Id: 7'[/cyan]
    [cyan]seriatim pub images.cat --file cat.png -s nats://10.0.0.7:4222[/cyan]
    [cyan]seriatim pub orders.new hello -s tls://broker --user ops --password env:SECRET[/cyan]
    """
    from seriatim.cli.pubsub import pub

    publication = pub.Publication(
        subject=pub.checked_subject(subject, wildcards=False),
        headers=pub.read_headers(header or []),
        payload=pub.read_payload(payload, file),
        count=count,
        reply=reply and pub.checked_subject(reply, wildcards=False),
        ack=ack,
        timeout=timeout,
    )
    out = sys.stdout  # standard output itself, before a progress bar wraps it
    pub.publish(access, publication, lambda line: print(line, file=out, flush=True))


@app.command()
@with_options(access=read_access)
def sub(
    subjects: Annotated[
        list[str],
        typer.Argument(metavar="SUBJECT", help="The subjects to listen to; * and > are wildcards."),
    ],
    queue: Queue = None,
    count: Annotated[
        int,
        typer.Option("-n", "--count", min=0, metavar="N", help="Stop after this many. 0: never."),
    ] = 0,
    first: First = None,
    last: Last = None,
    since: Since = None,
    latest: Latest = False,
    until_now: UntilNow = False,
    reconnect: Reconnect = None,
    raw: Raw = False,
    json: Json = False,
    frame: WholeFrame = False,
    colour: Colour = None,
    *,
    access: BrokerAccess,
) -> None:
    """Subscribe, and print number, subject and payload. Ctrl-C ends it.

    Messages of the past that are no longer kept are reported on standard error.
    With --from, --since or --last, it reconnects and resumes without repeating a message.

    JSON has the broker's [bold]time[/bold], or else the time when it was [bold]received[/bold].

    [bold]Examples[/bold]

    [cyan]seriatim sub '>'[/cyan]                        everything
    [cyan]seriatim sub orders.new 'trades.*' --count 10[/cyan]
    [cyan]seriatim sub orders.new --json | jq .number[/cyan]
    [cyan]seriatim sub 'orders.>' --from 88485[/cyan]    from that number, then live
    [cyan]seriatim sub '>' --since 10m --count 5[/cyan]
    [cyan]seriatim sub 'prices.*' --last[/cyan]          the last of each subject, then live
    [cyan]seriatim sub '>' --from 1 --to 1000[/cyan]     and then stop
    [cyan]seriatim sub '>' --from 1 --until-now[/cyan]   what is there now, without waiting
    [cyan]seriatim sub '>' --frame > frames[/cyan]       frames back to back, to decode later
    """
    from broker.runtime.colours import wants_colours
    from seriatim.cli.pubsub import message_view, pub, sub, sub_start

    chosen = [name for name, on in (("raw", raw), ("json", json), ("frame", frame)) if on]
    if len(chosen) > 1:
        raise UsageError(f"give one of {' and '.join(f'--{name}' for name in chosen)}, not both")
    for subject in subjects:
        pub.checked_subject(subject, wildcards=True)
    group = "" if queue is None else pub.checked_queue(queue)
    begin = sub_start.read_past(first, last, since, latest, until_now)
    if begin is not None and group:
        raise UsageError("a queue group gets only live messages, not the past; leave out --queue")
    if begin is None and reconnect is not None:
        raise UsageError("--reconnect needs --from, --since or --last")
    if colour is None:
        colour = wants_colours(sys.stdout.isatty(), os.environ)
    show = message_view.printer(chosen[0] if chosen else "text", sys.stdout.buffer, colour)

    def ready(words: str) -> None:
        print(f"seriatim: listening to {' '.join(subjects)}{words}", file=sys.stderr, flush=True)

    try:
        options = sub.SubscribeOptions(subjects, group, count, begin, reconnect)
        sub.subscribe(access, options, show, ready)
    except KeyboardInterrupt:
        if count:
            raise  # the wanted past is incomplete


def show_help(context: typer.Context, words: CommandWords = None) -> None:
    """Print the help of a command, as its --help does.

    [bold]Examples[/bold]

    [cyan]seriatim help[/cyan]
    [cyan]seriatim help sub[/cyan]
    [cyan]seriatim help stream ls[/cyan]
    """
    at: Any = context.find_root()
    for word in words or ():
        if not hasattr(at.command, "resolve_command"):
            raise UsageError(f"`{at.command_path}` has no commands of its own; leave out {word!r}")
        name, command, _ = at.command.resolve_command(at, [word])
        at = command.context_class(command, at, info_name=name, **command.context_settings)
    typer.echo(at.get_help())


app.command()(record)
app.command()(play)
app.command()(pcap)
app.command()(bench)
app.command()(check)
app.command()(top)
app.command(cls=PortFirst)(cq)
app.command()(sendr)
app.command()(destn)
app.command("help")(show_help)
app.command()(completion)
app.command()(man)
