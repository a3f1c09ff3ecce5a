"""`seriatim cluster`: make a cluster of brokers, show its status, and operate it.

The commands take the cluster and its etcd as `seriatim serve` does: from flags, SERIATIM_*
variables, or the file of --config.
"""

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seriatim.cli.errors import CliError, UsageError
from seriatim.settings.shared_options import Json, with_options

if TYPE_CHECKING:
    from broker.cluster.engine.etcd import EtcdAccess
    from seriatim.cli.cluster.cluster_operate import Operated

app = typer.Typer(
    name="cluster",
    help="""Make a cluster of brokers, show its state, and operate it.

    The members of a cluster keep one journal together; etcd stores who they are.

    [bold]Examples[/bold]

    [cyan]seriatim cluster init --cluster orders --etcd http://etcd-1:2379[/cyan]
    [cyan]seriatim cluster status --cluster orders --etcd http://etcd-1:2379[/cyan]
    """,
    short_help="Make a cluster of brokers, show its state, and operate it.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

PANEL = "The cluster, and its etcd"
# For a call. A member asks the next endpoint sooner, as a fail-over waits for it; a command is
# made once, and an etcd that has just started, or has a slow disk, takes more than a second.
ETCD_S = 5.0


def _option(*names: str, metavar: str, help: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=PANEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFlags:
    """The flags that name a cluster and its etcd, as given: those of every command."""

    cluster: Annotated[
        str | None, _option("--cluster", metavar="NAME", help="The name of the cluster.")
    ] = None
    etcd: Annotated[
        list[str] | None,
        _option("--etcd", metavar="URL,URL,...", help="The endpoints of its etcd."),
    ] = None
    config: Annotated[
        str | None,
        _option("-c", "--config", metavar="FILE", help="A TOML file of the broker's settings."),
    ] = None
    etcd_user: Annotated[
        str | None, _option("--etcd_user", metavar="TEXT", help="The user of etcd.")
    ] = None
    etcd_password_file: Annotated[
        str | None,
        _option("--etcd_password_file", metavar="FILE", help="The file with its password."),
    ] = None
    etcd_ca: Annotated[
        str | None,
        _option("--etcd_ca", metavar="FILE", help="The CA that signed etcd's certificate."),
    ] = None
    etcd_cert: Annotated[
        str | None, _option("--etcd_cert", metavar="FILE", help="The certificate to show to etcd.")
    ] = None
    etcd_key: Annotated[
        str | None, _option("--etcd_key", metavar="FILE", help="The key of the certificate.")
    ] = None

    def values(self, **more: str | None) -> dict[str, Any]:
        """Return the settings by path. `more` are further flags, with __ for the dot.

        Raises `CliError` if the settings do not name the cluster.
        """
        from broker.settings.resolve import look_up

        given: dict[str, Any] = {path.replace("__", "."): text for path, text in more.items()}
        given |= {"cluster.name": self.cluster, "cluster.etcd": self.etcd or None}
        for name in ("etcd_user", "etcd_password_file", "etcd_ca", "etcd_cert", "etcd_key"):
            given[f"cluster.{name}"] = getattr(self, name)
        flags = {path: value for path, value in given.items() if value is not None}
        values = look_up(flags, os.environ, self.config)
        for path, how in (
            ("cluster.name", "--cluster NAME"),
            ("cluster.etcd", "--etcd URL,URL,..."),
        ):
            if not values[path]:
                raise CliError(f"{path} is missing; give {how}, or -c FILE")
        return values


@app.command()
@with_options(named=ClusterFlags)
def init(
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
    *,
    named: ClusterFlags,
) -> None:
    """Make a cluster: its first member is a store, an existing one or a new one.

    All that the store has counts as committed. Stop its broker first. Afterwards start it again
    with --cluster, and others with empty directories: they copy what it has.

    [bold]Examples[/bold]

    [cyan]seriatim cluster init --cluster orders --etcd http://etcd-1:2379,http://etcd-2:2379[/cyan]
    [cyan]seriatim cluster init -c broker.toml[/cyan]
    """
    values = named.values(store_dir=store_dir, cluster__min_in_sync=min_in_sync)
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
@with_options(named=ClusterFlags)
def status(
    json: Json = False,
    *,
    named: ClusterFlags,
) -> None:
    """Show the members of a cluster, who coordinates, and what is wrong.

    The exit status is 1 if something is wrong.

    [bold]Examples[/bold]

    [cyan]seriatim cluster status --cluster orders --etcd http://etcd-1:2379[/cyan]
    [cyan]seriatim cluster status -c broker.toml --json | jq .problems[/cyan]
    """
    values = named.values()
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
@with_options(named=ClusterFlags)
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
    *,
    named: ClusterFlags,
) -> None:
    """Let another member coordinate: publishers see a pause of some milliseconds.

    [bold]Examples[/bold]

    [cyan]seriatim cluster handover -c broker.toml[/cyan]
    [cyan]seriatim cluster handover two --cluster orders --etcd http://etcd-1:2379[/cyan]
    """
    _operate(named, lambda operate, found: operate.hand_over(found, member))


@app.command()
@with_options(named=ClusterFlags)
def remove(
    member: Annotated[str, typer.Argument(metavar="MEMBER", help="Its id or name.")],
    *,
    named: ClusterFlags,
) -> None:
    """Remove a member from the view: nothing waits for it any longer.

    A silent member is removed without this. It is for one that must not count before you put an
    old state of its machine back. A member that runs comes back by itself.

    [bold]Example[/bold]

    [cyan]seriatim cluster remove three -c broker.toml[/cyan]
    """
    _operate(named, lambda operate, found: operate.remove(found, member))


@app.command()
@with_options(named=ClusterFlags)
def stop(
    *,
    named: ClusterFlags,
) -> None:
    """Stop all members at the same number. Afterwards they start again in any order.

    [bold]Example[/bold]

    [cyan]seriatim cluster stop -c broker.toml[/cyan]
    """
    _operate(named, lambda operate, found: operate.stop(found))


@app.command()
@with_options(named=ClusterFlags)
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
            "--yes",
            metavar="COUNT",
            help="Do not ask; go on if exactly this many members are seen.",
        ),
    ] = None,
    *,
    named: ClusterFlags,
) -> None:
    """Recover from a disaster: no member of the view can come back, or etcd has lost the view.

    The member with the longest journal becomes the only one in sync. Start all members that you
    have first: one that is not seen may have more. The command says what may be lost, and asks.

    [bold]Examples[/bold]

    [cyan]seriatim cluster recover -c broker.toml[/cyan]
    [cyan]seriatim cluster recover -c broker.toml --yes 3[/cyan]
    [cyan]seriatim cluster recover -c broker.toml -sd /var/lib/seriatim[/cyan]     a new etcd
    """
    values = named.values()
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
    keys, and see how long publishing pauses. Nothing stays on the disk.

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
        timeout=ETCD_S,
    )


def _operate(
    named: ClusterFlags,
    command: "Callable[[ModuleType, Operated], Awaitable[list[str]]]",
) -> None:
    """Ask the members for something, and print what happened."""
    values = named.values()
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
