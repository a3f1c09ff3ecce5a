"""Options that jobs share: credentials for the broker, the source, and the range of numbers.

    @job
    @with_access
    def archive(root: str, server: str, *, access: Access) -> int: ...

takes --user, --tlscacert and the like, and gets their meaning as `access`: options of the data
source, which the job gives to Spark as they are.
"""

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import typer

from pyspark_seriatim.jobs.errors import WrongArguments
from pyspark_seriatim.options import NO_OPTIONS
from seriatim.settings.checked import WrongValue
from seriatim.settings.secret_texts import secret_of

Access = Mapping[str, str]
ANYBODY: Final[Access] = NO_OPTIONS
SECRET: Final = "in plain text, env:NAME or file:PATH"
SECRETS: Final = ("password", "token")
PANEL: Final = "The broker"
# By parameter: the option of the data source, the flags, and their help. As of `seriatim sub`.
ACCESS: Final = {
    "user": ("user", ("--user",), "NAME", "The user to connect as."),
    "password": ("password", ("--password",), "SECRET", f"Its password, {SECRET}."),
    "token": ("token", ("--token",), "SECRET", f"A token, {SECRET}."),
    "nkey": ("nkeyFile", ("--nkey",), "FILE", "A file with an nkey's seed."),
    "creds": ("credentialsFile", ("--creds",), "FILE", "A credentials file."),
    "tlscacert": ("tlsCaFile", ("--tlscacert",), "FILE", "Certificates to trust (PEM)."),
    "tlscert": ("tlsCertFile", ("--tlscert",), "FILE", "Our own certificate (PEM)."),
    "tlskey": ("tlsKeyFile", ("--tlskey",), "FILE", "Its private key (PEM)."),
    "inbox_prefix": (
        "inboxPrefix",
        ("--inbox-prefix",),
        "SUBJECT",
        "Where answers come, for a user that may not subscribe to _INBOX.>.",
    ),
}


def with_access(function: Callable[..., int]) -> Callable[..., int]:
    """Give a job the options of `ACCESS`, and --tls_first."""
    signature = inspect.signature(function)
    parameters = [one for one in signature.parameters.values() if one.name != "access"]
    for name, (_, flags, metavar, about) in ACCESS.items():
        option = typer.Option(
            *flags, metavar=metavar, help=about, rich_help_panel=PANEL, show_default=False
        )
        parameters.append(_parameter(name, Annotated[str, option], ""))
    first = typer.Option(
        *("--tls_first", "--tls-first"),
        metavar=" ",
        help="TLS before INFO.",
        rich_help_panel=PANEL,
        show_default=False,
    )
    parameters.append(_parameter("tls_first", Annotated[bool, first], False))

    @functools.wraps(function)
    def run(*args: Any, **given: Any) -> int:
        access = given.pop("access", None)
        texts = {name: given.pop(name, "") for name in ACCESS}
        tls_first = given.pop("tls_first", False)
        if access is None:
            access = access_of(texts, tls_first)
        return function(*args, **given, access=access)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": int}
    return run


def _parameter(name: str, annotation: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def access_of(texts: Mapping[str, str], tls_first: bool = False) -> Access:
    """The options of the data source that these flags mean. Raises `JobError`."""
    found = {}
    for name, text in texts.items():
        if not text:
            continue
        try:
            found[ACCESS[name][0]] = secret_of(text) if name in SECRETS else text
        except WrongValue as wrong:
            raise WrongArguments(f"--{name}: {wrong}") from None
    return found | ({"tlsHandshakeFirst": "true"} if tls_first else {})


def chosen_server(server: str | None, archive: str | None) -> str | None:
    """The broker of a job that reads a broker, an archive, or both.

    SERIATIM_URL counts only if neither is given: with an archive the user may mean that alone.
    """
    return server or (os.environ.get("SERIATIM_URL") or None if archive is None else None)


First = Annotated[
    int | None,
    typer.Option("--from", min=1, metavar="N", help="The first number.", show_default=False),
]
Last = Annotated[
    int | None,
    typer.Option("--to", min=1, metavar="N", help="The last number.", show_default=False),
]
# No default, and from the environment only without an archive (`chosen_server`).
OneServer = Annotated[
    str | None,
    typer.Option(
        *("-s", "--url", "--server"),
        metavar="URL",
        help="The broker whose journal is read: nats://HOST:PORT, or HOST:PORT. Without --archive"
        " by default that of SERIATIM_URL.",
        show_default=False,
    ),
]
OneArchive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        metavar="ROOT",
        help="An archive, or any folder of Parquet files with a column `sequence`.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", metavar=" ", help="JSON, for a program.")]
