"""`seriatim cluster`: make a cluster of brokers, and see how it is.

The commands take the cluster and its etcd as `seriatim serve` does: from flags, SERIATIM_*
variables, or the file of --config.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seriatim.cli.errors import CliError

if TYPE_CHECKING:
    from broker.cluster.etcd import EtcdAccess

app = typer.Typer(
    name="cluster",
    help="""Make a cluster of brokers, and see how it is.

    The members of a cluster keep one journal together; etcd keeps who they are.

    [bold]Examples[/bold]

    [cyan]seriatim cluster init --cluster orders --etcd http://etcd-1:2379[/cyan]
    [cyan]seriatim cluster status --cluster orders --etcd http://etcd-1:2379[/cyan]
    """,
    short_help="Make a cluster of brokers, and see how it is.",
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
        found = cluster_status.ask(access, values["cluster.name"])
    if json:
        print(cluster_status.as_json(found))
    else:
        cluster_status.print_status(found)
    if found.problems:
        raise typer.Exit(1)


def access_of(values: dict[str, Any]) -> "EtcdAccess":
    """How to reach etcd, from the settings by path. Raises `CliError`."""
    try:
        from broker.cluster.etcd import EtcdAccess
    except ImportError as error:
        raise CliError(
            f"{error.name} is not installed, which etcd is asked with: pip install"
            " 'seriatim[cluster]'"
        ) from error
    return EtcdAccess(
        endpoints=values["cluster.etcd"],
        user=values["cluster.etcd_user"],
        password_file=values["cluster.etcd_password_file"],
        ca=values["cluster.etcd_ca"],
        certificate=values["cluster.etcd_cert"],
        key=values["cluster.etcd_key"],
    )


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
    """The settings by path. Raises `CliError` if it is not said which cluster is meant."""
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
    from broker.cluster.view_keeper import EngineError
    from sequencer.replica.view import BadView

    logging.getLogger("seriatim").addHandler(logging.NullHandler())  # the errors say it all
    try:
        yield
    except EngineError as error:
        raise CliError(str(error)) from error
    except BadView as error:
        raise CliError(
            f"what etcd keeps is not a view that this Seriatim knows: {error}"
        ) from error
