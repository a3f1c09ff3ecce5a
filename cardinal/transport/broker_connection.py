"""Opens the client's connection to the broker, with errors for a user of Cardinal Streams."""

from typing import Any

from cardinal.transport.errors import BrokerRefused, NoNumbers, TransportError, Unreachable
from seriatim.client.connecting import connect
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    InvalidArgument,
    NoAnswer,
    NotABroker,
    NotAuthorized,
    NotSeriatim,
    Unconfirmed,
    describe,
)
from seriatim.client.server_address import without_credentials
from seriatim.client.stream_client import Client

CONNECT_SECONDS_MAX = 10.0
PING_SECONDS = 15.0


class Broken(Exception):
    """There is no connection; try again."""


async def open_client(url: str, **options: Any) -> Client:
    """Connect; `options` are those of `seriatim.connect`.

    Raises `Broken`; `BrokerRefused` if the address is not valid or the broker refuses the login.
    """
    settings = {
        "name": "cardinal",
        "connect_timeout": CONNECT_SECONDS_MAX,
        "ping_interval": PING_SECONDS,
        **options,
    }
    shown = without_credentials(url)
    try:
        return await connect(url, **settings)
    except InvalidArgument as error:
        if error.address:
            raise BrokerRefused(f"{shown}: {error.reason}") from None
        raise BrokerRefused(
            f"{shown!r} is not the address of a broker; give nats://HOST:PORT"
        ) from None
    except NotAuthorized as error:
        raise refusal(url, error) from None
    except BrokerError as error:
        raise Broken(f"{shown}: {describe(error)}") from None


def refusal(url: str, error: BrokerError) -> TransportError:
    """Return our error for one of the client's."""
    shown = without_credentials(url)
    if isinstance(error, NotAuthorized):
        return BrokerRefused(f"{shown}: the broker refuses the login")
    if isinstance(error, NotSeriatim):
        return NoNumbers(f"{shown}: this broker gives no numbers: it is not Seriatim")
    if isinstance(error, NotABroker):
        return BrokerRefused(f"{shown}: this broker is not Seriatim: {error.reason}")
    if isinstance(error, ConnectionLost | NoAnswer | Unconfirmed):
        return Unreachable(f"{shown}: {error.reason}")
    return BrokerRefused(str(error))
