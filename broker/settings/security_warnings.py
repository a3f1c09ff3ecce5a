"""The insecure settings of a broker on a network: one line each, with the remedy.

A pure function of the settings: the start, a reload and `seriatim check` say the same.
"""

from broker.addresses import is_loopback, shown
from broker.settings.authorization_checks import is_spelt_out
from broker.settings.settings import Settings

GIVE_CERTIFICATE = "give a certificate (--tlscert and --tlskey)"


def insecure(settings: Settings) -> list[str]:
    """Return the lines; empty if there is nothing to say."""
    lines = [*_of_clients(settings), *_of_the_port(settings), *_of_monitoring(settings)]
    lines += _of_messages(settings)
    if plain := _plain(settings):
        lines.append(
            f"{plain}: anyone who can read the configuration can read the password; give a bcrypt"
            " hash (`seriatim user passwd`), a user with an nkey, or env:NAME or file:PATH"
        )
    return lines


def _of_clients(settings: Settings) -> list[str]:
    only_tls = not settings.tls.allow_non_tls
    places = [(one.host, one.port, one.tls and only_tls) for one in settings.listeners]
    if settings.port:
        places.insert(0, (settings.host, settings.port, only_tls))
    web = settings.websocket
    if web.port:
        places.append((web.host or settings.host, web.port, not web.no_tls))
    places = [place for place in places if not is_loopback(place[0])]
    clear = [place for place in places if not (settings.tls.is_on and place[2])]
    authorization = settings.authorization
    if places and not authorization.is_required:
        return [
            f"everybody who reaches {_shown(places)} may read and publish everything; give users"
            " (--user and --pass, --auth, authorization.users_file), or listen on this machine only"
            " (--addr 127.0.0.1)"
        ]
    secrets = authorization.token or authorization.password
    if clear and (secrets or any(one.password for one in authorization.users)):
        return [
            f"passwords and messages cross the network in plain text on {_shown(clear)};"
            f" {'leave tls.allow_non_tls out' if settings.tls.allow_non_tls else GIVE_CERTIFICATE}"
        ]
    return []


def _shown(places: list[tuple[str, int, bool]]) -> str:
    return ", ".join(shown(host, port) if port > 0 else host for host, port, _ in places)


def _of_the_port(settings: Settings) -> list[str]:
    host = settings.sequencer.host or settings.host
    if not settings.sequencer.port or is_loopback(host) or settings.sequencer.user:
        return []
    if settings.authorization.no_auth_user:
        return []  # so every client is that user
    return [
        f"everybody who reaches cquencer's port on {host} may publish; listen on this machine only"
        " (--sequencer_host 127.0.0.1), or give them a user with few rights (--sequencer_user)"
    ]


def _of_monitoring(settings: Settings) -> list[str]:
    host = settings.http_host or settings.host
    if not (settings.http_port or settings.https_port) or is_loopback(host):
        return []
    if not settings.http_user:
        opens = settings.http_messages and not settings.authorization.is_required
        what = "the monitoring pages and all messages" if opens else "the monitoring pages"
        return [
            f"everybody who reaches {host} may read {what}; give a user (--http_user"
            " and --http_pass), or listen on this machine only (--http_host 127.0.0.1)"
        ]
    if settings.http_port:
        return [
            f"the password for monitoring crosses the network in plain text on {host}; give a"
            " certificate (--tlscert and --tlskey) and --https_port, or listen on this machine only"
            " (--http_host 127.0.0.1)"
        ]
    return []


def _of_messages(settings: Settings) -> list[str]:
    """Return what is insecure about messages on the live page."""
    if not settings.http_messages or not settings.http_port:
        return []
    lines = []
    host = settings.http_host or settings.host
    if settings.tls.is_verifying:
        lines.append(
            "the live page shows messages without the certificate that tls.verify demands of"
            " clients; leave out --http_messages"
        )
    if settings.authorization.is_required and not is_loopback(host):
        lines.append(
            f"passwords that the live page asks for cross the network in plain text on {host}; give"
            " a certificate (--tlscert and --tlskey) and --https_port, or listen on this machine"
            " only (--http_host 127.0.0.1)"
        )
    return lines


def _plain(settings: Settings) -> str:
    """The settings that spell a password out, in words; empty if there are none."""
    own = settings.authorization
    secrets = {
        "authorization.password": own.password,
        "authorization.token": own.token,
        "http_password": settings.http_password,
    }
    plain = [path for path, secret in secrets.items() if is_spelt_out(secret)]
    users = [one.user for one in own.users if is_spelt_out(one.password)]
    if users:
        more = f" and {len(users) - 1} more users" if len(users) > 1 else ""
        plain.append(f"the password of user {users[0]}{more}")
    return ", ".join(plain)
