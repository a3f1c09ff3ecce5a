"""The command `seriatim check`, declared for typer."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from seriatim.cli.broker_access import DEFAULT_URL, BrokerAccess, read_access
from seriatim.cli.errors import CliError, UsageError
from seriatim.client.server_address import without_credentials
from seriatim.settings.checked import quoted
from seriatim.settings.shared_options import Json, with_options
from seriatim.settings.subjects import is_subject

if TYPE_CHECKING:
    from seriatim.cli.check.check_broker import Approach
    from seriatim.cli.check.check_results import CheckResults

BROKER_SCHEMES = ("nats", "tls")
SOCKET_SCHEMES = ("ws", "wss")
WEB_SCHEMES = ("http", "https")

Target = Annotated[
    str,
    typer.Argument(
        metavar="FILE|URL",
        help="A file of settings; or nats://, tls://, ws:// or wss:// for a broker, http:// or"
        " https:// for its monitoring. Default: the broker of the context.",
        show_default=False,
    ),
]
Origin = Annotated[
    str,
    typer.Option(
        metavar="URL", help="Connect to ws:// or wss:// as a browser's page of this site."
    ),
]
PublishTo = Annotated[
    str, typer.Option(metavar="SUBJECT", help="Publish a message there, and get its number.")
]
Timeout = Annotated[
    float, typer.Option(min=0.01, max=3600, metavar="SECONDS", help="How long to wait.")
]


@wraps(read_access)
def _access_by_target(**options: Any) -> Callable[[bool], BrokerAccess]:
    """Return a function of whether the target is an address, which makes the access.

    The secrets of a context that is only selected are for its own broker.
    """
    named = options.get("context_name")
    return lambda is_address: read_access(
        url=DEFAULT_URL if is_address and not named else None, **options
    )


@with_options("url", find_access=_access_by_target)
def check(
    target: Target = "",
    origin: Origin = "",
    publish: PublishTo = "",
    timeout: Timeout = 5.0,
    json: Json = False,
    *,
    find_access: Callable[[bool], BrokerAccess],
) -> int:
    """Check a file of settings, or a running broker.

    Prints a line for each check. The exit status is 0 if all
    is well, 1 if something failed, 2 if there are only warnings.

    A file is checked as [bold]seriatim serve -c FILE[/bold] would read it, and
    nothing is started. It says what is wrong, what is insecure, and when
    certificates expire. Nothing is published to a broker without --publish.

    [bold]Examples[/bold]

    [cyan]seriatim check broker.toml[/cyan]
    [cyan]seriatim check nats://127.0.0.1:4222[/cyan]
    [cyan]seriatim check tls://broker:4222 --user ops --password env:SECRET --json[/cyan]
    [cyan]seriatim check --context prod[/cyan]
    [cyan]seriatim check wss://broker:8443 --origin https://app.example[/cyan]
    [cyan]seriatim check http://127.0.0.1:8222[/cyan]
    """
    from seriatim.cli.check.check_broker import Approach
    from seriatim.cli.check.check_results import CheckResults

    access = find_access(bool(target))
    if not target:
        if not access.context:
            raise UsageError("what to check? Give a file, nats://HOST:PORT, or --context NAME")
        target = access.full_url
        first, *others = target.split(",")
        if others:
            raise UsageError(
                f"context {access.context} has several brokers; check one of them, such as"
                f" {without_credentials(first)} --context {access.context}"
            )
    if publish and not is_subject(publish, wildcards=False):
        raise UsageError(f"--publish {quoted(publish)} is not a subject that can be published to")
    results = CheckResults(without_credentials(target))
    parts = urlsplit(target) if "://" in target else None
    scheme = parts.scheme if parts is not None else ""
    if scheme:
        access.check()
    if scheme and access.context:
        results.ok("context", access.context)
    approach = Approach(access, timeout, publish, _origin(origin, scheme))
    if parts is None:
        from seriatim.cli.check.check_file import check_file

        check_file(results, target)
    elif scheme in (*BROKER_SCHEMES, *SOCKET_SCHEMES):
        _check_broker(results, target, approach)
    elif scheme in WEB_SCHEMES:
        from seriatim.cli.check.check_web import check_web, web_address

        check_web(results, *web_address(parts, approach))
    else:
        known = ", ".join(f"{one}://" for one in (*BROKER_SCHEMES, *SOCKET_SCHEMES, *WEB_SCHEMES))
        raise CliError(f'"{results.target}" is not an address; give a file, or one of {known}')
    print(results.as_json() if json else "\n".join(results.lines()))
    sys.stdout.flush()
    return results.status


def _origin(text: str, scheme: str) -> str:
    """The origin to send to a WebSocket listener, such as https://host:port. Raises `CliError`."""
    if not text:
        return ""
    if scheme not in SOCKET_SCHEMES:
        raise UsageError("--origin is for ws:// and wss://")
    try:
        parts = urlsplit(text)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number
        named = False
    plain = text.isascii() and text.isprintable() and " " not in text
    if not (named and plain and text == f"{parts.scheme}://{parts.netloc}"):
        raise UsageError("--origin is not the origin of a page; give https://HOST")
    return text


def _check_broker(results: "CheckResults", target: str, approach: "Approach") -> None:
    from seriatim.cli.check.check_broker import check_broker
    from seriatim.client.server_address import read_address

    try:
        address = read_address(target, (*BROKER_SCHEMES, *SOCKET_SCHEMES))
    except ValueError:
        scheme = target.partition("://")[0]
        raise CliError(
            f'"{results.target}" is not the address of a broker; give {scheme}://HOST:PORT'
        ) from None
    check_broker(results, address, approach)
