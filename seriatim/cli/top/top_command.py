"""The command `seriatim top`, declared for typer."""

import os
import sys
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote, urlsplit

import typer

from seriatim.cli.broker_access import BrokerAccess, read_own_access
from seriatim.cli.errors import UsageError
from seriatim.client.server_address import without_credentials
from seriatim.settings.shared_options import with_options

if TYPE_CHECKING:
    from seriatim.cli.top.page_reader import PageAddress, PageReader

DEFAULT_URL = "http://127.0.0.1:8222"
PORT = 8222
# Options of a client that pages of HTTP have no use for.
NOT_OF_HTTP = ("url", "context_name", "token", "nkey", "creds", "tls_first", "inbox_prefix")

Place = Annotated[
    str,
    typer.Argument(
        metavar="[URL]", help="The broker's monitoring: http://HOST:PORT, https:// or HOST:PORT."
    ),
]
Delay = Annotated[
    float,
    typer.Option(
        *("-d", "--delay"), min=0.1, max=3600, metavar="SECONDS", help="Between two samples."
    ),
]
Once = Annotated[
    bool,
    typer.Option(
        *("--once", "--batch"),
        metavar=" ",
        help="Print one snapshot as text; the default if this is no terminal.",
    ),
]
OneJson = Annotated[
    bool, typer.Option("--json", metavar=" ", help="Print one snapshot as a JSON document.")
]
Stat = Annotated[
    bool,
    typer.Option(
        "--stat",
        metavar=" ",
        help="Print a line for each interval; the default if the terminal is a dumb one.",
    ),
]


@with_options(*NOT_OF_HTTP, access=read_own_access)
def top(
    url: Place = DEFAULT_URL,
    delay: Delay = 1.0,
    once: Once = False,
    json: OneJson = False,
    stat: Stat = False,
    *,
    access: BrokerAccess,
) -> int:
    """Watch a running broker: rates, connections, streams, consumers.

    It reads the monitoring pages, so the broker needs [bold]-m 8222[/bold]. A
    nats-server can be watched, too. Press [bold]?[/bold] for the keys.

    Rates are averages between two samples. A snapshot takes two samples, and
    prints the second.

    [bold]Examples[/bold]

    [cyan]seriatim top[/cyan]                       this machine, port 8222
    [cyan]seriatim top broker-2:8222 -d 5[/cyan]
    [cyan]seriatim top https://broker:8222 --user ops --password env:SECRET[/cyan]
    [cyan]seriatim top --stat >> today.log[/cyan]   a line each second
    [cyan]seriatim top --json | jq .broker.in_msgs_rate[/cyan]
    """
    chosen = [name for name, on in (("once", once), ("json", json), ("stat", stat)) if on]
    if len(chosen) > 1:
        raise UsageError(f"give one of {' and '.join(f'--{name}' for name in chosen)}, not both")
    address = _address(url, access)

    from seriatim.cli.top import plain_view
    from seriatim.cli.top.page_reader import PageReader

    reader = PageReader(address)
    is_live = not chosen and sys.stdin.isatty() and sys.stdout.isatty()
    is_dumb = os.environ.get("TERM", "") in ("", "dumb", "unknown")
    if stat or (is_live and is_dumb):
        try:
            plain_view.print_lines(reader, address, delay)
        except KeyboardInterrupt:
            return 0
    elif is_live:
        return _show(reader, address, delay)
    else:
        watch = plain_view.snapshot(reader, address, delay)
        if json:
            plain_view.print_json(watch, address)
        else:
            plain_view.print_snapshot(watch, address)
    return 0


def _show(reader: "PageReader", address: "PageAddress", seconds: float) -> int:
    from seriatim.cli.top import live_view, plain_view
    from seriatim.cli.top.broker_watch import BrokerWatch
    from seriatim.cli.top.top_heading import sparks_for
    from seriatim.cli.top.top_screen import TopScreen

    screen = TopScreen(BrokerWatch(), str(address), seconds, sparks_for(sys.stdout.encoding))
    screen.watch.learn(plain_view.first_round(reader, address, screen.wanted()))
    return live_view.show(reader, screen)


def _address(url: str, access: BrokerAccess) -> "PageAddress":
    """Return where the pages are. Raises `CliError`."""
    from seriatim.cli.top.page_reader import PageAddress

    wrong = UsageError(
        f'"{without_credentials(url)}" is not the address of monitoring; give http://HOST:PORT'
    )
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:  # the port is not a number
        raise wrong from None
    extra = parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme not in ("http", "https") or not host or port == 0 or extra:
        raise wrong
    user, password = access.credentials.user, access.credentials.password
    if parts.username and not user:
        user, password = unquote(parts.username), unquote(parts.password or "")
    secure = parts.scheme == "https"
    return PageAddress(host, port or PORT, secure, user, password, access.tls.context)
