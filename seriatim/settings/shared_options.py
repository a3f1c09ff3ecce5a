"""Options that several commands share.

A group of options is a function: its parameters are the options, and what it returns is the
argument that a command takes instead.

    def read_access(*, url: Annotated[str, typer.Option(...)] = "", ...) -> BrokerAccess: ...

    @app.command()
    @with_options(access=read_access)
    def pub(subject: str, *, access: BrokerAccess) -> None: ...

So `pub` takes --url and all the others. A single option that several commands share is a type, such
as `Json`.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

import typer

Result = TypeVar("Result")

SECRET: Final = "in plain text, env:NAME or file:PATH"
PANEL: Final = "The broker"


def _of_broker(*names: str, metavar: str, help: str, **more: Any) -> Any:
    more = {"show_default": False, "rich_help_panel": PANEL, **more}
    return typer.Option(*names, metavar=metavar, help=help, **more)


# Of all that connect to a broker.
User = Annotated[str, _of_broker("--user", metavar="NAME", help="The user to connect as.")]
Password = Annotated[
    str, _of_broker("--password", metavar="SECRET", help=f"Its password, {SECRET}.")
]
Token = Annotated[str, _of_broker("--token", metavar="SECRET", help=f"A token, {SECRET}.")]
Nkey = Annotated[str, _of_broker("--nkey", metavar="FILE", help="A file with an nkey's seed.")]
Creds = Annotated[str, _of_broker("--creds", metavar="FILE", help="A credentials file.")]
Authorities = Annotated[
    str, _of_broker("--tlscacert", metavar="FILE", help="Certificates to trust (PEM).")
]
Certificate = Annotated[
    str, _of_broker("--tlscert", metavar="FILE", help="The client's certificate (PEM).")
]
Key = Annotated[str, _of_broker("--tlskey", metavar="FILE", help="Its private key (PEM).")]
TlsFirst = Annotated[
    bool, _of_broker("--tls_first", "--tls-first", metavar=" ", help="TLS before INFO.")
]
InboxPrefix = Annotated[
    str | None,
    _of_broker(
        "--inbox-prefix",
        metavar="SUBJECT",
        help="The prefix of subjects for answers, if the user may not subscribe to _INBOX.>.",
    ),
]

# Of several commands.
Json = Annotated[bool, typer.Option("--json", metavar=" ", help="Print JSON, for a program.")]
First = Annotated[
    int | None,
    typer.Option("--from", min=1, metavar="N", help="The first number.", show_default=False),
]
Last = Annotated[
    int | None,
    typer.Option("--to", min=1, metavar="N", help="The last number.", show_default=False),
]


def with_options(
    *left_out: str, **groups: Callable[..., Any]
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Give a command the options of each group, but those in `left_out`.

    By argument of the command: the function that makes it from the options' values. A caller in
    Python may give the argument itself.
    """
    chosen = {
        argument: [
            one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for one in inspect.signature(make).parameters.values()
            if one.name not in left_out
        ]
        for argument, make in groups.items()
    }

    def decorate(command: Callable[..., Result]) -> Callable[..., Result]:
        signature = inspect.signature(command)
        parameters = [one for one in signature.parameters.values() if one.name not in groups]
        parameters += [one for options in chosen.values() for one in options]

        @functools.wraps(command)
        def run(*args: Any, **given: Any) -> Result:
            for argument, make in groups.items():
                if argument not in given:
                    names = [one.name for one in chosen[argument] if one.name in given]
                    given[argument] = make(**{name: given.pop(name) for name in names})
            return command(*args, **given)

        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate
