"""`seriatim user`: users with passwords and keys, in the file of `authorization.users_file`.

The commands change only that file. They report the change, and how to apply it to a running broker,
on standard error; their results (a password, a hash, keys) go to standard output.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from seriatim.cli.errors import UsageError
from seriatim.cli.user.user_options import (
    DEFAULT_COST,
    Config,
    Cost,
    File,
    Generate,
    OptionalNumber,
    Password,
    Stdin,
    given_rights,
)
from seriatim.settings.shared_options import Json, with_options

if TYPE_CHECKING:
    from seriatim.cli.user.user_rights import UserRights

app = typer.Typer(
    name="user",
    help="""Add, list, change and remove users, in a file that the broker reads.

    The file is that of --file, or else [bold]authorization.users_file[/bold] of the settings.

    [bold]Examples[/bold]

    [cyan]seriatim user add alice --file users.toml --publish 'orders.>'[/cyan]
    [cyan]seriatim serve --users_file users.toml[/cyan]
    """,
    short_help="Add, list, change and remove users, in a file that the broker reads.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say(lines: Sequence[str]) -> None:
    """Print lines about the change, and notes, for the user."""
    for line in lines:
        print(f"seriatim: {line}", file=sys.stderr, flush=True)


@app.command(cls=OptionalNumber)
@with_options(rights=given_rights)
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name that clients give.")],
    file: File = None,
    config: Config = None,
    password: Password = "",
    password_stdin: Stdin = False,
    generate: Generate = False,
    no_password: Annotated[
        bool,
        typer.Option(
            "--no-password",
            metavar=" ",
            help="None: the user is named in a client's certificate (tls.verify_and_map).",
        ),
    ] = False,
    cost: Cost = DEFAULT_COST,
    *,
    rights: "UserRights",
) -> None:
    """Add a user with a password; the file is made if it is missing.

    The password is asked for. Only its bcrypt hash is stored.

    [bold]Examples[/bold]

    [cyan]seriatim user add alice -f users.toml[/cyan]             may do everything
    [cyan]seriatim user add bob -f users.toml --generate --publish 'orders.>'[/cyan]
    [cyan]pass show carol | seriatim user add carol -c broker.toml --password-stdin[/cyan]
    [cyan]seriatim user add dave -c broker.toml --password file:/run/secrets/dave[/cyan]
    """
    from seriatim.cli.user.new_password import hashed, read_password
    from seriatim.cli.user.user_edits import add_user, check_new
    from seriatim.cli.user.users_layout import checked_name
    from seriatim.cli.user.users_place import find_place

    checked_name(name)
    rights.table()  # report errors before the password prompt
    if no_password and (password or password_stdin or generate):
        raise UsageError("--no-password means that there is none; leave out the other flag")
    place = find_place(file, config)
    check_new(place, name)
    new = "" if no_password else read_password(password, password_stdin, generate)
    said = add_user(place, name, hashed(new, cost) if new else "", rights)
    if generate:
        print(new, flush=True)
    _say(said)


@app.command(name="list")
def list_users(
    file: File = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """List the users, how each authenticates, and what each may do.

    With --config, the users in that file, too. Passwords and hashes are not shown.

    [bold]Examples[/bold]

    [cyan]seriatim user list -f users.toml[/cyan]
    [cyan]seriatim user list -c broker.toml --json | jq '.[].name'[/cyan]
    """
    from seriatim.cli.user import user_list
    from seriatim.cli.user.users_place import find_place

    place = find_place(file, config, needed=not config)
    users = user_list.listed_users(place)
    if json:
        print(user_list.as_json(users))
    elif users:
        user_list.print_users(users)
    else:
        _say(["there are no users"])
    _say(user_list.warnings(users))


@app.command()
def passwd(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="The user; without one, the hash is only printed.",
            show_default=False,
        ),
    ] = None,
    file: File = None,
    config: Config = None,
    password: Password = "",
    password_stdin: Stdin = False,
    generate: Generate = False,
    cost: Cost = DEFAULT_COST,
) -> None:
    """Give a user a new password, or print the hash of a password for a configuration.

    nats-server reads these hashes, too. Clients that are connected with the old password are
    closed when the broker reloads its settings.

    [bold]Examples[/bold]

    [cyan]seriatim user passwd alice -f users.toml[/cyan]
    [cyan]seriatim user passwd[/cyan]           a hash for authorization.password
    """
    from seriatim.cli.user.new_password import hashed, read_password
    from seriatim.cli.user.user_edits import check_password, set_password
    from seriatim.cli.user.users_place import find_place

    if name is None and (file or config):
        raise UsageError("whose password? Give the name of a user, or leave out the file")
    if name is None:
        new = read_password(password, password_stdin, generate)
        hash = hashed(new, cost)
        print(f"password  {new}\nhash      {hash}" if generate else hash, flush=True)
        return
    place = find_place(file, config)
    check_password(place, name)
    new = read_password(password, password_stdin, generate)
    said = set_password(place, name, hashed(new, cost))
    if generate:
        print(new, flush=True)
    _say(said)


@app.command(cls=OptionalNumber)
@with_options(rights=given_rights)
def nkey(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Whose key it is: a comment in the file. It can be removed by this name.",
            show_default=False,
        ),
    ] = None,
    file: File = None,
    config: Config = None,
    seed: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the seed to this new file; do not print it."),
    ] = None,
    public: Annotated[
        str | None,
        typer.Option(metavar="U...", help="Add this public key, of a pair that exists already."),
    ] = None,
    *,
    rights: "UserRights",
) -> None:
    """Create an nkey pair, and a user that authenticates with it.

    The broker has only the public key. The seed is the user's secret: it signs what the
    broker asks. Without NAME, file and rights, the pair is only made.

    [bold]Examples[/bold]

    [cyan]seriatim user nkey[/cyan]                                  a pair of keys
    [cyan]seriatim user nkey backup -f users.toml --seed backup.nk --subscribe '>'[/cyan]
    [cyan]seriatim user nkey -f users.toml --public UDXU4RCS...[/cyan]
    """
    from seriatim.cli.user.nkey_pair import checked_public, new_pair, write_seed
    from seriatim.cli.user.user_edits import add_key
    from seriatim.cli.user.users_layout import checked_name
    from seriatim.cli.user.users_place import find_place

    if public and seed:
        raise UsageError("--public has no seed to write; leave out --seed")
    if name is not None:
        checked_name(name)
    pair = checked_public(public) if public else new_pair()
    said: Sequence[str] = ()
    if name or file or config or public or rights.table():
        said = add_key(find_place(file, config), name or "", pair, seed, rights)
    elif seed:
        write_seed(seed, pair.seed)
    if seed:
        print(pair.public, flush=True)
    elif not public:
        print(f"public key  {pair.public}\nseed        {pair.seed}", flush=True)
    _say(said)


@app.command()
def remove(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Its name, its public key, or the key's name.")
    ],
    file: File = None,
    config: Config = None,
) -> None:
    """Remove a user. Its clients are closed when the broker reloads its settings.

    [bold]Examples[/bold]

    [cyan]seriatim user remove alice -f users.toml[/cyan]
    [cyan]seriatim user remove alice -c broker.toml && systemctl reload seriatim[/cyan]
    """
    from seriatim.cli.user.user_edits import remove_user
    from seriatim.cli.user.users_place import find_place

    _say(remove_user(find_place(file, config), name))
