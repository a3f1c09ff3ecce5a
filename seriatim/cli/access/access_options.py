"""The options of every command that connects to a broker.

    @app.command()
    @with_access()
    def pub(subject: str, *, access: "BrokerAccess") -> None: ...

takes --url, --user, --password and all others, and gets their meaning as `access`.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from seriatim.cli.access.broker_access import DEFAULT_URL, INBOX_PREFIX, read_access

SECRET: Final = "in plain text, env:NAME or file:PATH"
PANEL: Final = "The broker"


def _option(*names: str, metavar: str, help: str, **more: Any) -> Any:
    return typer.Option(
        *names, metavar=metavar, help=help, rich_help_panel=PANEL, **{"show_default": False, **more}
    )


# By parameter: its type, its option, its default.
OPTIONS: Final[dict[str, tuple[Any, Any, Any]]] = {
    "url": (
        str,
        _option(
            *("-s", "--url", "--server"),
            metavar="URL",
            envvar="SERIATIM_URL",
            help="The broker: nats://HOST:PORT, tls://HOST:PORT, or HOST:PORT.",
            show_default=True,
        ),
        DEFAULT_URL,
    ),
    "user": (str, _option(metavar="NAME", help="The user to connect as."), ""),
    "password": (str, _option(metavar="SECRET", help=f"Its password, {SECRET}."), ""),
    "token": (str, _option(metavar="SECRET", help=f"A token, {SECRET}."), ""),
    "nkey": (str, _option(metavar="FILE", help="A file with an nkey's seed."), ""),
    "creds": (str, _option(metavar="FILE", help="A credentials file."), ""),
    "tlscacert": (
        str,
        _option("--tlscacert", metavar="FILE", help="Certificates to trust (PEM)."),
        "",
    ),
    "tlscert": (str, _option("--tlscert", metavar="FILE", help="Our own certificate (PEM)."), ""),
    "tlskey": (str, _option("--tlskey", metavar="FILE", help="Its private key (PEM)."), ""),
    "tls_first": (
        bool,
        _option("--tls_first", "--tls-first", metavar=" ", help="TLS before INFO."),
        False,
    ),
    "inbox_prefix": (
        str,
        _option(
            metavar="SUBJECT",
            help="Where answers come, for a user that may not subscribe to _INBOX.>.",
            show_default=True,
        ),
        INBOX_PREFIX,
    ),
}


def with_access(*left_out: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command these options, except for the parameters in `left_out`."""
    chosen = {name: option for name, option in OPTIONS.items() if name not in left_out}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(command)
        parameters = [one for one in signature.parameters.values() if one.name != "access"]
        for name, (kind, option, default) in chosen.items():
            parameters.append(
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=default,
                    annotation=Annotated[kind, option],
                )
            )

        @functools.wraps(command)
        def run(**given: Any) -> Any:
            access = read_access(**{name: given.pop(name) for name in chosen})
            return command(**given, access=access)

        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate


def access_flags(*left_out: str) -> dict[str, str]:
    """The flag of each parameter, for commands that refuse some beside others."""
    return {
        name: f"--{name if name.startswith('tls') else name.replace('_', '-')}"
        for name in OPTIONS
        if name not in left_out
    }
