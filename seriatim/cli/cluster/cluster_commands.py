"""`seriatim cluster`: make a cluster of brokers, show its status, and operate it.

The commands take the cluster and its etcd as `seriatim serve` does: from flags, SERIATIM_*
variables, or the file of --config.
"""

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seriatim.cli.errors import CliError, UsageError

if TYPE_CHECKING:
    from broker.cluster.engine.etcd import EtcdAccess
    from seriatim.cli.cluster.cluster_operate import Operated

app = typer.Typer(
    name="cluster",
    help="""Make a cluster of brokers, see how it is, and operate it.

    The members of a cluster keep one journal together; etcd keeps who they are.

    [bold]Examples[/bold]

    [cyan]seriatim cluster init --cluster orders --etcd http://etcd-1:2379[/cyan]
    [cyan]seriatim cluster status --cluster orders --etcd http://etcd-1:2379[/cyan]
    """,
    short_help="Make a cluster of brokers, see how it is, and operate it.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Name = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="The name of the cluster.")
]
Etcd = Annotated[
    list[str] | None,
    typer.Option("--etcd", metavar="URL,URL,...", help="The endpoints of its etcd."),
]
Config = Annotated[
    str | None,
    typer.Option("-c", "--config", metavar="FILE", help="A TOML file of the broker's settings."),
]
User = Annotated[str | None, typer.Option("--etcd_user", metavar="TEXT", help="The user of etcd.")]
Password = Annotated[
    str | None,
    typer.Option("--etcd_password_file", metavar="FILE", help="The file with its password."),
]
Authority = Annotated[
    str | None, typer.Option("--etcd_ca", metavar="FILE", help="The authority that etcd has.")
]
Certificate = Annotated[
    str | None, typer.Option("--etcd_cert", metavar="FILE", help="The certificate to show it.")
]
Key = Annotated[
    str | None, typer.Option("--etcd_key", metavar="FILE", help="The key of the certificate.")
]


@app.command()
def init(
    cluster: Name = None,
    etcd: Etcd = None,
    store_dir: Annotated[
        str | None,
        typer.Option(
            *("-sd", "--store_dir"),
            metavar="DIR",
            help="The store that becomes the first member; created if it is missing.",
        ),
    ] = None,
    min_in_sync: Annotated[
        str | None,
        typer.Option(
            "--min_in_sync",
            metavar="COUNT",
            help="With fewer members in sync nothing is published (default: 2).",
        ),
    ] = None,
    config: Config = None,
    etcd_user: User = None,
    etcd_password_file: Password = None,
    etcd_ca: Authority = None,
    etcd_cert: Certificate = None,
    etcd_key: Key = None,
) -> None:
    """Make a cluster: its first member is a store, an existing one or a new one.

    All that the store has counts as committed. Stop its broker first. Afterwards start it again
    with --cluster, and others with empty directories: they copy what it has.

    [bold]Examples[/bold]

    [cyan]seriatim cluster init --cluster orders --etcd http://etcd-1:2379,http://etcd-2:2379[/cyan]
    [cyan]seriatim cluster init -c broker.toml[/cyan]
    """
    given = {
        **_common(cluster, etcd, etcd_user, etcd_password_file, etcd_ca, etcd_cert, etcd_key),
        "store_dir": store_dir,
        "cluster.min_in_sync": min_in_sync,
    }
    values = _look_up(given, config)
    path = values["store_dir"]
    if not path:
        raise CliError("there is no home directory to keep the journal in; give --store_dir")
    access = access_of(values)
    from seriatim.cli.cluster import cluster_init
    from seriatim.cli.journal.journal_span import store_errors

    with _errors(), store_errors(path):
        name, least = values["cluster.name"], values["cluster.min_in_sync"]
        made = cluster_init.make(access, name, path, least)
    for line in cluster_init.lines(made, ",".join(values["cluster.etcd"])):
        print(line)


@app.command()
def status(
    cluster: Name = None,
    etcd: Etcd = None,
    json: Annotated[
        bool, typer.Option("--json", metavar=" ", help="Print JSON, for a program.")
    ] = False,
    config: Config = None,
    etcd_user: User = None,
    etcd_password_file: Password = None,
    etcd_ca: Authority = None,
    etcd_cert: Certificate = None,
    etcd_key: Key = None,
) -> None:
    """Show the members of a cluster, who coordinates, and what is wrong.

    The exit status is 1 if something is wrong.

    [bold]Examples[/bold]

    [cyan]seriatim cluster status --cluster orders --etcd http://etcd-1:2379[/cyan]
    [cyan]seriatim cluster status -c broker.toml --json | jq .problems[/cyan]
    """
    given = _common(cluster, etcd, etcd_user, etcd_password_file, etcd_ca, etcd_cert, etcd_key)
    values = _look_up(given, config)
    access = access_of(values)
    from seriatim.cli.cluster import cluster_status

    with _errors():
        found = cluster_status.read_status(access, values["cluster.name"])
    if json:
        print(cluster_status.as_json(found))
    else:
        cluster_status.print_status(found)
    if found.problems:
        raise typer.Exit(1)


@app.command()
def handover(
    member: Annotated[
        str,
        typer.Argument(
            metavar="[MEMBER]",
            help="The id or name of the member that is to coordinate; the one that has most, if"
            " none is given.",
            show_default=False,
        ),
    ] = "",
    cluster: Name = None,
    etcd: Etcd = None,
    config: Config = None,
    etcd_user: User = None,
    etcd_password_file: Password = None,
    etcd_ca: Authority = None,
    etcd_cert: Certificate = None,
    etcd_key: Key = None,
) -> None:
    """Let another member coordinate: publishers see a pause of some milliseconds.

    [bold]Examples[/bold]

    [cyan]seriatim cluster handover -c broker.toml[/cyan]
    [cyan]seriatim cluster handover two --cluster orders --etcd http://etcd-1:2379[/cyan]
    """
    given = _common(cluster, etcd, etcd_user, etcd_password_file, etcd_ca, etcd_cert, etcd_key)
    _operate(given, config, lambda operate, found: operate.hand_over(found, member))


@app.command()
def remove(
    member: Annotated[str, typer.Argument(metavar="MEMBER", help="Its id or name.")],
    cluster: Name = None,
    etcd: Etcd = None,
    config: Config = None,
    etcd_user: User = None,
    etcd_password_file: Password = None,
    etcd_ca: Authority = None,
    etcd_cert: Certificate = None,
    etcd_key: Key = None,
) -> None:
    """Remove a member from the view: nothing waits for it any longer.

    A silent member is removed without this. It is for one that must not count before you put an
    old state of its machine back. A member that runs comes back by itself.

    [bold]Example[/bold]

    [cyan]seriatim cluster remove three -c broker.toml[/cyan]
    """
    given = _common(cluster, etcd, etcd_user, etcd_password_file, etcd_ca, etcd_cert, etcd_key)
    _operate(given, config, lambda operate, found: operate.remove(found, member))


@app.command()
def stop(
    cluster: Name = None,
    etcd: Etcd = None,
    config: Config = None,
    etcd_user: User = None,
    etcd_password_file: Password = None,
    etcd_ca: Authority = None,
    etcd_cert: Certificate = None,
    etcd_key: Key = None,
) -> None:
    """Stop all members at the same number. Afterwards they start again in any order.

    [bold]Example[/bold]

    [cyan]seriatim cluster stop -c broker.toml[/cyan]
    """
    given = _common(cluster, etcd, etcd_user, etcd_password_file, etcd_ca, etcd_cert, etcd_key)
    _operate(given, config, lambda operate, found: operate.stop(found))


@app.command()
def recover(
    store_dir: Annotated[
        str | None,
        typer.Option(
            *("-sd", "--store_dir"),
            metavar="DIR",
            help="Take this store, whose member is stopped, instead of asking those that run: for"
            " an etcd that is new.",
        ),
    ] = None,
    yes: Annotated[
        int | None,
        typer.Option(
            "--yes", metavar="COUNT", help="Do it if so many members are seen, without asking."
        ),
    ] = None,
    cluster: Name = None,
    etcd: Etcd = None,
    config: Config = None,
    etcd_user: User = None,
    etcd_password_file: Password = None,
    etcd_ca: Authority = None,
    etcd_cert: Certificate = None,
    etcd_key: Key = None,
) -> None:
    """Recover from a disaster: no member of the view can come back, or etcd has lost the view.

    The member with the longest journal becomes the only one in sync. Start all members that you
    have first: one that is not seen may have more. The command says what may be lost, and asks.

    [bold]Examples[/bold]

    [cyan]seriatim cluster recover -c broker.toml[/cyan]
    [cyan]seriatim cluster recover -c broker.toml --yes 3[/cyan]
    [cyan]seriatim cluster recover -c broker.toml -sd /var/lib/seriatim[/cyan]     a new etcd
    """
    given = _common(cluster, etcd, etcd_user, etcd_password_file, etcd_ca, etcd_cert, etcd_key)
    values = _look_up(given, config)
    access = access_of(values)
    from seriatim.cli.cluster import cluster_recover
    from seriatim.cli.journal.journal_span import store_errors

    with _errors(), store_errors(store_dir or ""):
        said = cluster_recover.recover(
            access, values["cluster.name"], store_dir or "", partial(_confirm, yes)
        )
    for line in said:
        print(line)


def _confirm(yes: int | None, lines: list[str], count: int) -> None:
    """Show the losses; go on only if the user, or `--yes`, confirms this count of members."""
    for line in lines:
        print(line)
    if yes is None and sys.stdin.isatty():
        yes = typer.prompt("To do it, say how many members that is", type=int)
    if yes is None:
        raise CliError(f"give --yes {count} to do it")
    if yes != count:
        raise CliError(f"--yes {yes}: {count} members are seen, not {yes}; nothing was changed")


@app.command()
def demo(
    script: Annotated[
        str | None,
        typer.Option(
            "--script",
            metavar="WORDS",
            help="Play these instead of reading keys: kill, stop, cut, handover, with commas. The"
            " exit status is 0 if no number was missing and none came twice.",
        ),
    ] = None,
) -> None:
    """See fail-over: three members and an etcd on this machine, until you end it.

    Publishers and a subscriber at each member run. You kill, stop and cut off the coordinator by
    keys, and see how long publishing stands. Nothing stays on the disk.

    [bold]Examples[/bold]

    [cyan]seriatim cluster demo[/cyan]
    [cyan]seriatim cluster demo --script kill,stop,cut[/cyan]
    """
    _need_aiohttp()
    from seriatim.cli.cluster import cluster_demo

    words = [word.strip() for word in (script or "").split(",") if word.strip()]
    for word in words:
        if word not in cluster_demo.TROUBLES:
            known = ", ".join(cluster_demo.TROUBLES)
            raise UsageError(f"--script: {word} is not one of {known}")
    if script is None and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CliError("this is not a terminal; give --script kill,stop,cut")
    with _errors():
        held = cluster_demo.watch() if script is None else cluster_demo.play(words)
    if not held:
        raise typer.Exit(1)


def access_of(values: dict[str, Any]) -> "EtcdAccess":
    """How to reach etcd, from the settings by path. Raises `CliError`."""
    _need_aiohttp()
    from broker.cluster.engine.etcd import EtcdAccess

    return EtcdAccess(
        endpoints=values["cluster.etcd"],
        user=values["cluster.etcd_user"],
        password_file=values["cluster.etcd_password_file"],
        ca=values["cluster.etcd_ca"],
        certificate=values["cluster.etcd_cert"],
        key=values["cluster.etcd_key"],
    )


def _operate(
    given: dict[str, Any],
    config: str | None,
    command: "Callable[[ModuleType, Operated], Awaitable[list[str]]]",
) -> None:
    """Ask the members for something, and print what happened."""
    values = _look_up(given, config)
    access = access_of(values)
    from seriatim.cli.cluster import cluster_operate

    with _errors():
        said = cluster_operate.operate(
            access, values["cluster.name"], lambda found: command(cluster_operate, found)
        )
    for line in said:
        print(line)


def _need_aiohttp() -> None:
    try:
        import broker.cluster.engine.etcd  # noqa: F401
    except ImportError as error:
        raise CliError(
            f"{error.name} is not installed; it is needed to reach etcd: pip install 'aiohttp>=3.9'"
        ) from error


def _common(
    cluster: str | None,
    etcd: list[str] | None,
    user: str | None,
    password_file: str | None,
    ca: str | None,
    certificate: str | None,
    key: str | None,
) -> dict[str, Any]:
    """The flags of every command, by the path of their setting."""
    return {
        "cluster.name": cluster,
        "cluster.etcd": etcd or None,
        "cluster.etcd_user": user,
        "cluster.etcd_password_file": password_file,
        "cluster.etcd_ca": ca,
        "cluster.etcd_cert": certificate,
        "cluster.etcd_key": key,
    }


def _look_up(given: dict[str, Any], config: str | None) -> dict[str, Any]:
    """The settings by path. Raises `CliError` if they do not name the cluster."""
    from broker.settings.resolve import look_up

    flags = {path: value for path, value in given.items() if value is not None}
    values = look_up(flags, os.environ, config)
    for path, how in (("cluster.name", "--cluster NAME"), ("cluster.etcd", "--etcd URL,URL,...")):
        if not values[path]:
            raise CliError(f"{path} is missing; give {how}, or -c FILE")
    return values


@contextmanager
def _errors() -> Iterator[None]:
    """Turn the engine's errors into one-line messages."""
    from broker.cluster.engine.view_keeper import EngineError
    from sequencer.replica.view import BadView

    logging.getLogger("seriatim").addHandler(logging.NullHandler())  # the errors say it all
    try:
        yield
    except EngineError as error:
        raise CliError(str(error)) from error
    except BadView as error:
        raise CliError(
            f"etcd holds a cluster view that this version of Seriatim cannot read: {error}"
        ) from error
