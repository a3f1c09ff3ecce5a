"""The blocking client as Spark's options want it: payloads in memory that is aligned for Arrow.

    SparkConnection.open(options)     the first address that lets us in

An answer's payload is a buffer of its own that nothing else uses: arrays on it copy nothing.
"""

import ssl
from typing import Final, Self

import pyarrow as pa

from pyspark_seriatim.errors import OptionError
from pyspark_seriatim.options import Options
from seriatim.client.blocking import BlockingClient, ConnectOptions
from seriatim.client.credentials import Credentials
from seriatim.client.errors import InvalidArgument
from seriatim.client.tls import TlsSettings

SECOND_MS: Final = 1000


class SparkConnection(BlockingClient):
    """One connection; open until `close`, or until something raised `ConnectionLost`."""

    journal: str | None = None  # whoever asks for it first notes it here

    @classmethod
    def open(cls, options: Options) -> Self:
        """Connect to the first server that lets us in.

        Raises `ConnectionLost` where none does, `BrokerError` where we are not let in, and
        `OptionError` for files that cannot be used.
        """
        try:
            return cls.connect(options.servers, connect_options(options))
        except InvalidArgument as error:
            raise OptionError(f"credentialsFile: {error.reason}") from None


def connect_options(options: Options) -> ConnectOptions:
    """How to connect, as the options of a reader or a writer say it."""
    return ConnectOptions(
        name="pyspark_seriatim",
        credentials=Credentials(
            options.user, options.password, options.token, options.credentials_file
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
    )


def allocate_aligned(size: int) -> memoryview:
    """Memory that is aligned for Arrow."""
    return memoryview(pa.allocate_buffer(size)).cast("B")


def tls_context(options: Options) -> ssl.SSLContext:
    """What is trusted, and who we are. Raises `OptionError` for files that cannot be used."""
    name, file = "tlsCaFile", options.tls_ca_file
    try:
        context = ssl.create_default_context(cafile=file or None)
        if options.tls_cert_file:
            name, file = "tlsCertFile", options.tls_cert_file
            context.load_cert_chain(file, options.tls_key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise OptionError(f"{name}: {file} cannot be used: {error}") from None
    return context
