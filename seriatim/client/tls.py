"""The TLS of a client: when it starts, and which certificates it trusts."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from seriatim.client.errors import BrokerError, ConnectionLost, describe
from seriatim.client.server_address import ServerAddress


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The TLS of a client. It starts if the broker, the address or `wanted` asks for it.

    `context` is made only then.
    """

    context: Callable[[], ssl.SSLContext] = ssl.create_default_context
    wanted: bool = False
    first: bool = False  # before INFO
    hint: str = ""  # how to trust the broker, for an error


DEFAULT_TLS: Final = TlsSettings()


def wants_tls(settings: TlsSettings, address: ServerAddress, info: dict[str, Any]) -> bool:
    """True if TLS starts after INFO. Raises `BrokerError` if the broker does not support it."""
    wanted = address.tls or settings.wanted
    if info.get("tls_required"):
        return True
    if wanted and not info.get("tls_available"):
        raise BrokerError(
            "TLS is required, but the broker does not support it", address=str(address)
        )
    return wanted


def tls_failure(settings: TlsSettings, error: OSError) -> BrokerError:
    """Return the error for a TLS handshake that failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"the broker's certificate is not trusted ({error.verify_message})"
        return BrokerError(f"{why}{settings.hint}")
    if isinstance(error, ssl.SSLEOFError | ConnectionError):  # closed or reset, as it happens
        why = "it closed the connection in the TLS handshake; it may not speak TLS there"
        return ConnectionLost(why)
    return ConnectionLost(describe(error))
