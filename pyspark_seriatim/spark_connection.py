"""The blocking client for Spark's options: payloads in memory that is aligned for Arrow.

    SparkConnection.open(options)     the first server that accepts us

The payload of an answer has a buffer of its own, so arrays on it copy nothing.
"""

import ssl
from typing import Final, Self

import pyarrow as pa

from pyspark_seriatim.errors import OptionError
from pyspark_seriatim.options import Options
from seriatim.client.bulk_connection import BulkConnection, ConnectOptions
from seriatim.client.credentials import Credentials
from seriatim.client.errors import InvalidArgument
from seriatim.client.tls import TlsSettings

SECOND_MS: Final = 1000


class SparkConnection(BulkConnection):
    """One connection; open until `close`, or until a call raised `ConnectionLost`."""

    journal: str | None = None  # stored here by the first caller that asks for it

    @classmethod
    def open(cls, options: Options) -> Self:
        """Connect to the first server that accepts us.

        Raises `ConnectionLost` if none can be reached, `BrokerError` if the broker refuses
        the login, and `OptionError` for unusable files.
        """
        try:
            return cls.connect(options.servers, connect_options(options))
        except InvalidArgument as error:
            name = "nkeyFile" if options.nkey_file else "credentialsFile"
            raise OptionError(f"{name}: {error.reason}") from None


def connect_options(options: Options) -> ConnectOptions:
    """The options for connecting, from those of a reader or a writer."""
    return ConnectOptions(
        name="pyspark_seriatim",
        credentials=Credentials(
            options.user,
            options.password,
            options.token,
            options.credentials_file,
            options.nkey_file,
        ),
        tls=TlsSettings(
            lambda: tls_context(options),
            wanted=bool(options.tls_ca_file or options.tls_cert_file),
            first=options.tls_handshake_first,
            hint="; set tlsCaFile to the CA that signed it",
        ),
        connect_timeout=options.connect_timeout_ms / SECOND_MS,
        timeout=options.request_timeout_ms / SECOND_MS,
        allocate=allocate_aligned,
        fields={"frame": "none"},
        inbox_prefix=options.inbox_prefix,
    )


def allocate_aligned(size: int) -> memoryview:
    """Memory that is aligned for Arrow."""
    return memoryview(pa.allocate_buffer(size)).cast("B")


def tls_context(options: Options) -> ssl.SSLContext:
    """The trusted CAs and our certificate. Raises `OptionError` for unusable files."""
    name, file = "tlsCaFile", options.tls_ca_file
    try:
        context = ssl.create_default_context(cafile=file or None)
        if options.tls_cert_file:
            name, file = "tlsCertFile", options.tls_cert_file
            context.load_cert_chain(file, options.tls_key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise OptionError(f"{name}: {file} cannot be used: {error}") from None
    return context
