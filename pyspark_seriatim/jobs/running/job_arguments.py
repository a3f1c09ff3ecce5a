"""Options that jobs share: credentials for the broker, and the source.

    @job
    @with_options(access=job_access)
    def archive(root: str, server: str, *, access: Access) -> int: ...

takes --user, --tlscacert and the like, and gets their meaning as `access`: options of the data
source, which the job gives to Spark as they are.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from pyspark_seriatim.jobs.errors import WrongArguments
from pyspark_seriatim.options import NO_OPTIONS
from seriatim.settings import shared_options
from seriatim.settings.checked import WrongValue
from seriatim.settings.secret_texts import secret_of

Access = Mapping[str, str]
ANYBODY: Final[Access] = NO_OPTIONS
OF_SOURCE: Final = {  # the options of the data source, by parameter
    "user": "user",
    "password": "password",
    "token": "token",
    "nkey": "nkeyFile",
    "creds": "credentialsFile",
    "tlscacert": "tlsCaFile",
    "tlscert": "tlsCertFile",
    "tlskey": "tlsKeyFile",
    "inbox_prefix": "inboxPrefix",
}


def job_access(
    *,
    user: shared_options.User = "",
    password: shared_options.Password = "",
    token: shared_options.Token = "",
    nkey: shared_options.Nkey = "",
    creds: shared_options.Creds = "",
    tlscacert: shared_options.Authorities = "",
    tlscert: shared_options.Certificate = "",
    tlskey: shared_options.Key = "",
    tls_first: shared_options.TlsFirst = False,
    inbox_prefix: shared_options.InboxPrefix = "",
) -> Access:
    """Return the options of the data source that these options mean. Raises `JobError`."""
    texts = dict(user=user, nkey=nkey, creds=creds, tlscacert=tlscacert, tlscert=tlscert)
    texts |= dict(tlskey=tlskey, inbox_prefix=inbox_prefix or "")
    for name, text in (("password", password), ("token", token)):
        try:
            texts[name] = secret_of(text)
        except WrongValue as wrong:
            raise WrongArguments(f"--{name}: {wrong}") from None
    found = {OF_SOURCE[name]: text for name, text in texts.items() if text}
    return found | ({"tlsHandshakeFirst": "true"} if tls_first else {})


def chosen_server(server: str | None, archive: str | None) -> str | None:
    """The broker of a job that reads a broker, an archive, or both.

    SERIATIM_URL counts only if neither is given: with an archive the user may mean that alone.
    """
    return server or (os.environ.get("SERIATIM_URL") or None if archive is None else None)


# No default, and from the environment only without an archive (`chosen_server`).
OneServer = Annotated[
    str | None,
    typer.Option(
        *("-s", "--url", "--server"),
        metavar="URL",
        help="The broker whose journal is read: nats://HOST:PORT, or HOST:PORT. Without --archive"
        " by default that of SERIATIM_URL.",
        show_default=False,
    ),
]
OneArchive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        metavar="ROOT",
        help="An archive, or any folder of Parquet files with a column `sequence`.",
        show_default=False,
    ),
]
