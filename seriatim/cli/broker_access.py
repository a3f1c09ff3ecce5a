"""Access to a broker for a command: the address, credentials, TLS, and a subject for answers.

Raises `CliError` for options that do not fit together, and for files that cannot be used.
"""

import inspect
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from seriatim.cli.errors import CliError, UsageError
from seriatim.client.credentials import NOBODY, Credentials
from seriatim.client.server_address import read_address, without_credentials
from seriatim.client.tls import DEFAULT_TLS, TlsSettings
from seriatim.settings import shared_options
from seriatim.settings.checked import WrongValue
from seriatim.settings.secret_texts import secret_of
from seriatim.settings.subjects import check_subject

DEFAULT_URL: Final = "nats://127.0.0.1:4222"
INBOX_PREFIX: Final = "_INBOX"
HINT: Final = "; give --tlscacert FILE"

Url = Annotated[
    str,
    typer.Option(
        *("-s", "--url", "--server"),
        metavar="URL",
        envvar="SERIATIM_URL",
        help="The broker: nats://HOST:PORT, tls://HOST:PORT, or HOST:PORT.",
        rich_help_panel=shared_options.PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """A broker's address, and how to log in."""

    url: str = DEFAULT_URL
    credentials: Credentials = NOBODY
    tls: TlsSettings = DEFAULT_TLS
    inbox_prefix: str = INBOX_PREFIX

    @property
    def full_url(self) -> str:
        """The address in full: host:port is enough in `url`. Raises `CliError`."""
        full = self._with_scheme
        try:
            read_address(full)
        except ValueError:
            raise UsageError(
                f'"{without_credentials(self.url)}" is not the address of a broker; give nats://HOST:PORT,'
                " tls://HOST:PORT or HOST:PORT"
            ) from None
        return full

    @property
    def shown(self) -> str:
        """The address in full, without the credentials that it may contain."""
        return without_credentials(self._with_scheme)

    @property
    def _with_scheme(self) -> str:
        return self.url if "://" in self.url else f"nats://{self.url}"

    @property
    def is_anonymous(self) -> bool:
        """True if neither the options nor the address contain credentials."""
        return self.credentials == NOBODY and "@" not in self.url

    def connect_options(self) -> dict[str, Any]:
        """Options of `seriatim.connect`."""
        return {
            "credentials": self.credentials,
            "tls": self.tls,
            "inbox_prefix": self.inbox_prefix,
        }


def read_access(
    *,
    url: Url = DEFAULT_URL,
    user: shared_options.User = "",
    password: shared_options.Password = "",
    token: shared_options.Token = "",
    nkey: shared_options.Nkey = "",
    creds: shared_options.Creds = "",
    tlscacert: shared_options.Authorities = "",
    tlscert: shared_options.Certificate = "",
    tlskey: shared_options.Key = "",
    tls_first: shared_options.TlsFirst = False,
    inbox_prefix: shared_options.InboxPrefix = INBOX_PREFIX,
) -> BrokerAccess:
    """Return the access that these options mean: those of every command that uses a broker."""
    ways = {"--user": user, "--token": token, "--nkey": nkey, "--creds": creds}
    given = [flag for flag, value in ways.items() if value]
    if len(given) > 1:
        raise UsageError(f"give one of {' and '.join(given)}, not both")
    if password and not user:
        raise UsageError("--password needs --user, which says whose it is")
    if tlskey and not tlscert:
        raise UsageError("--tlskey needs --tlscert, the certificate of this key")
    try:
        check_subject(inbox_prefix, False)
    except WrongValue as wrong:
        raise UsageError(f"--inbox-prefix: {wrong}") from None
    credentials = Credentials(
        user,
        _secret("--password", password),
        _secret("--token", token),
        creds,
        nkey,
    )
    tls = TlsSettings(
        context=_contexts(tlscacert, tlscert, tlskey),
        wanted=bool(tlscacert or tlscert or tls_first),
        first=tls_first,
        hint=HINT,
    )
    return BrokerAccess(url, credentials, tls, inbox_prefix)


def access_flags(*left_out: str) -> dict[str, str]:
    """Return the flag of each parameter, for commands that refuse some beside others."""
    return {
        name: f"--{name if name.startswith('tls') else name.replace('_', '-')}"
        for name in inspect.signature(read_access).parameters
        if name not in left_out
    }


def _secret(flag: str, text: str) -> str:
    """Resolve the secret that a text refers to. The error does not show it."""
    try:
        return secret_of(text)
    except WrongValue as wrong:
        raise CliError(f"{flag}: {wrong}") from None


def _contexts(authorities: str, certificate: str, key: str) -> Callable[[], ssl.SSLContext]:
    """Return a function that makes the TLS context. It reads the files for each connection."""

    def make() -> ssl.SSLContext:
        file = authorities
        try:
            context = ssl.create_default_context(cafile=authorities or None)
            if certificate:
                file = certificate
                context.load_cert_chain(certificate, key or None)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise CliError(f"{file}: {why}") from None
        return context

    return make
