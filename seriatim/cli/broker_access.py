"""Access to a broker for a command: the address, credentials, TLS, and a subject for answers.

    options  >  SERIATIM_URL  >  --context, $NATS_CONTEXT  >  the selected context  >  defaults

An address that an option or SERIATIM_URL gives leaves the selected context aside: its secrets are
for its own broker. What is wrong with a context is raised only when a command connects.

Raises `CliError` for options that do not fit together, and for files that cannot be used.
"""

import inspect
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, Final

import typer

from seriatim.cli.completion import context_names
from seriatim.cli.context import context_files
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
    str | None,
    typer.Option(
        *("-s", "--url", "--server"),
        metavar="URL",
        envvar="SERIATIM_URL",
        help="The broker: nats://HOST:PORT, tls://HOST:PORT, or HOST:PORT.",
        rich_help_panel=shared_options.PANEL,
        show_default=DEFAULT_URL,
    ),
]
AnswerTimeout = Annotated[
    float,
    typer.Option(
        min=0.01,
        max=3600,
        metavar="SECONDS",
        help="How long to wait for the broker, with --ack also after a break.",
    ),
]
ContextName = Annotated[
    str,
    typer.Option(
        "--context",
        metavar="NAME",
        envvar=context_files.VARIABLE,
        autocompletion=context_names,
        help="A saved connection of `seriatim context` or `nats context`; default: the selected"
        " one.",
        rich_help_panel=shared_options.PANEL,
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """A broker's address, and how to log in."""

    url: str = DEFAULT_URL
    credentials: Credentials = NOBODY
    tls: TlsSettings = DEFAULT_TLS
    inbox_prefix: str = INBOX_PREFIX

    context: str = ""  # the name of the context that some of this comes from
    wrong: CliError | None = None  # what is wrong with the context

    @property
    def full_url(self) -> str:
        """The addresses in full: host:port is enough in `url`. Raises `CliError`."""
        self.check()
        full = self._with_scheme
        try:
            for one in full.split(","):
                read_address(one)
        except ValueError:
            raise UsageError(
                f'"{_without_credentials(self.url)}" is not the address of a broker; give'
                f" nats://HOST:PORT, tls://HOST:PORT or HOST:PORT{self.origin}"
            ) from None
        return full

    @property
    def shown(self) -> str:
        """The address in full, without the credentials that it may contain; and the context."""
        return _without_credentials(self._with_scheme) + self.origin

    @property
    def _with_scheme(self) -> str:
        each = (one.strip() for one in self.url.split(","))
        return ",".join(one if "://" in one else f"nats://{one}" for one in each)

    @property
    def origin(self) -> str:
        """The context, for the end of an error message; empty if there is none."""
        return f" (context {self.context})" if self.context else ""

    @property
    def is_anonymous(self) -> bool:
        """True if neither the options nor the address contain credentials."""
        return self.credentials == NOBODY and "@" not in self.url

    def check(self) -> None:
        """Raise `CliError` if the context cannot be used."""
        if self.wrong is not None:
            raise self.wrong

    def connect_options(self) -> dict[str, Any]:
        """Options of `seriatim.connect`. Raises `CliError`."""
        self.check()
        return {
            "credentials": self.credentials,
            "tls": self.tls,
            "inbox_prefix": self.inbox_prefix,
        }


def _without_credentials(urls: str) -> str:
    return ",".join(map(without_credentials, urls.split(",")))


def read_access(
    *,
    url: Url = None,
    context_name: ContextName = "",
    user: shared_options.User = "",
    password: shared_options.Password = "",
    token: shared_options.Token = "",
    nkey: shared_options.Nkey = "",
    creds: shared_options.Creds = "",
    tlscacert: shared_options.Authorities = "",
    tlscert: shared_options.Certificate = "",
    tlskey: shared_options.Key = "",
    tls_first: shared_options.TlsFirst = False,
    inbox_prefix: shared_options.InboxPrefix = None,
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
    if inbox_prefix is not None:
        _check_inbox("--inbox-prefix", inbox_prefix)
    options: dict[str, Any] = {
        "inbox_prefix": inbox_prefix,
        "user": user,
        "password": _secret("--password", password),
        "token": _secret("--token", token),
        **{"nkey": nkey, "creds": creds},
        **{"tlscacert": tlscacert, "tlscert": tlscert, "tlskey": tlskey, "tls_first": tls_first},
    }
    options = {one: value for one, value in options.items() if value}
    if url is not None:
        options["url"] = url
    name, saved, wrong = "", {}, None
    try:
        context = context_files.in_use(context_name, or_selected=url is None)
        if context is not None:
            name = context.name
            saved = context.options(with_login=not (given or "@" in (url or "")))
            _check_inbox(f"context {name}: inbox_prefix", saved.get("inbox_prefix", INBOX_PREFIX))
    except CliError as error:
        wrong = error
    if tlscert:
        saved.pop("tlskey", None)
    return _access({**saved, **options}, name, wrong)


@wraps(read_access)
def read_own_access(**options: Any) -> BrokerAccess:
    """Return the access of the options alone: what is no broker gets nothing of a context."""
    return read_access(url=DEFAULT_URL, **options)


def _access(options: dict[str, Any], context: str, wrong: CliError | None) -> BrokerAccess:
    """Return the access of these options, without those that have their defaults."""

    def text(name: str) -> str:
        return str(options.get(name, ""))

    first = "tls_first" in options
    tls = TlsSettings(
        context=_contexts(text("tlscacert"), text("tlscert"), text("tlskey")),
        wanted=first or bool(text("tlscacert") or text("tlscert")),
        first=first,
        hint=HINT,
    )
    return BrokerAccess(
        options.get("url", DEFAULT_URL),
        Credentials(text("user"), text("password"), text("token"), text("creds"), text("nkey")),
        tls,
        options.get("inbox_prefix", INBOX_PREFIX),
        context,
        wrong,
    )


def _check_inbox(what: str, prefix: str) -> None:
    try:
        check_subject(prefix, False)
    except WrongValue as wrong:
        raise UsageError(f"{what}: {wrong}") from None


def access_flags(*left_out: str) -> dict[str, str]:
    """Return the flag of each parameter, for commands that refuse some beside others."""
    flags = {
        name: f"--{name if name.startswith('tls') else name.replace('_', '-')}"
        for name in inspect.signature(read_access).parameters
        if name not in left_out
    }
    return flags | {"context_name": "--context"}


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
