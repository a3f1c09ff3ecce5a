"""How settings take effect in a running broker: those that are declared with `reload=True`.

Most are read from the core's settings each time they are used (`live`). Those that have to be used
at once, or were copied to where each message passes, are applied here; the core has the new
settings already.
"""

import logging
from collections.abc import Callable
from typing import Final

from broker.runtime import logs
from broker.server import Server, limit_outboxes
from broker.settings.settings import Settings
from broker.storage.opening import limits_of
from parser import errors
from sequencer.journal.store import Store

log = logging.getLogger("seriatim")

SECOND = 1_000_000_000  # ns
AT_ONCE: Final = 64  # clients closed in one turn
PAUSE: Final = 0.005  # seconds between two turns

# May raise OSError; then nothing has changed.
Apply = Callable[[Server, Settings], None]


def live(server: Server, settings: Settings) -> None:
    """Do nothing: the setting is read each time it is used."""


def _log_file(server: Server, settings: Settings) -> None:
    logs.start_logging(settings.log_file, settings.debug or settings.trace, settings.log_format)


def _log_level(server: Server, settings: Settings) -> None:
    logs.set_level(settings.debug or settings.trace)
    for session in server.sessions.values():
        session.trace(settings.trace)


def _log_format(server: Server, settings: Settings) -> None:
    logs.set_format(settings.log_format)


def _tell_clients(server: Server, settings: Settings) -> None:
    server.info_push.changed()


def _clients(server: Server, settings: Settings) -> None:
    """Apply the limits of each client: of its output, and of what it sends."""
    limits = settings.limits
    for session in server.sessions.values():
        session.limit(limits)
    if server.staging is not None:
        server.staging.limit_rows(limits.max_control_line, limits.max_payload)


def _payload(server: Server, settings: Settings) -> None:
    _clients(server, settings)
    if server.cquencer is not None:
        server.cquencer.limit_payload()
    server.info_push.changed()


def _subscriptions(server: Server, settings: Settings) -> None:
    server.control.limit(settings.limits)


def _rates(server: Server, settings: Settings) -> None:
    for session in server.sessions.values():
        session.measure()


def _connections(server: Server, settings: Settings) -> None:
    """Close the newest clients above the limit, in turns: there may be very many."""
    over = server.roster.places.connected - settings.limits.max_connections
    if over > 0:
        log.info("Closing %d clients to fall within limits.max_connections", over)
        cquencer = server.cquencer.clients if server.cquencer is not None else {}
        cids = sorted((*server.sessions, *cquencer))[-over:]
        server.loop.call_soon(_close_some, server, cids)


def _close_some(server: Server, cids: list[int]) -> None:
    """Close the last of these, and the others in later turns, until the limit is met."""
    if server.roster.places.connected <= server.settings.limits.max_connections:
        return
    for cid in cids[-AT_ONCE:]:
        session = server.sessions.get(cid)
        if session is not None and not session.connection.closed:
            error = errors.ConnectionsExceeded
            session.expel(error, error.reason)
        elif server.cquencer is not None and cid in server.cquencer.clients:
            server.cquencer.expel(cid, errors.ConnectionsExceeded.reply.rstrip())
    del cids[-AT_ONCE:]
    if cids:
        server.loop.call_later(PAUSE, _close_some, server, cids)


def _users(server: Server, settings: Settings) -> None:
    """Replace the users and permissions, also those in the users' file."""
    server.reload_users(settings)


def _tls(server: Server, settings: Settings) -> None:
    """Load the certificates again: the same files may contain new ones."""
    if server.cluster is not None:  # first, because its checks are stricter than those for clients
        server.cluster.reload_tls(settings.tls)
    server.renew_tls(settings)


def _proxies(server: Server, settings: Settings) -> None:
    server.roster.trust(settings)


def _outboxes(server: Server, settings: Settings) -> None:
    limit_outboxes(server.plane, settings)
    _clients(server, settings)


def _answers(server: Server, settings: Settings) -> None:
    if server.replays is not None:
        server.replays.memory.limit(settings.limits.answers_pending)


def _journal(server: Server, settings: Settings) -> None:
    chosen, journal = settings.journal, server.journal
    if isinstance(journal, Store) and server.keeper is not None:
        journal.change_limits(**limits_of(chosen))
        server.keeper.change(chosen)


RELOADABLE: dict[str, Apply] = {
    "authorization.user": _users,
    "authorization.password": _users,
    "authorization.token": _users,
    "authorization.users_file": _users,
    "authorization.no_auth_user": _users,
    "authorization.timeout": _users,
    "authorization.max_attempts": _users,
    "authorization.allow_open_reload": live,
    "authorization.users": _users,
    "authorization.default_permissions": _users,
    "sequencer.user": _users,
    "tls.cert_file": _tls,
    "tls.key_file": _tls,
    "tls.ca_file": _tls,
    "tls.verify": _tls,
    "tls.verify_and_map": _tls,
    "tls.pinned_certs": _tls,
    "tls.allow_non_tls": _tls,
    "tls.handshake_first": _tls,
    "tls.timeout": _tls,
    "tls.min_version": _tls,
    "client_advertise": _tell_clients,
    "proxy_header": _proxies,
    "trusted_proxies": _proxies,
    "http_user": live,
    "http_password": live,
    "http_messages": live,
    "log_file": _log_file,
    "log_format": _log_format,
    "debug": _log_level,
    "trace": _log_level,
    "journal.sync_interval": _journal,
    "journal.segment_bytes": _journal,
    "journal.segment_age": _journal,
    "journal.retain_bytes": _journal,
    "journal.retain_age": _journal,
    "journal.retain_count": _journal,
    "limits.max_payload": _payload,
    "limits.max_control_line": _clients,
    "limits.max_connections": _connections,
    "limits.max_connections_per_address": live,
    "limits.max_subscriptions": live,
    "limits.max_subscriptions_total": live,
    "limits.max_subject_tokens": _subscriptions,
    "limits.publish_rate": _rates,
    "limits.publish_bytes": _rates,
    "limits.publish_burst": _rates,
    "limits.max_replays": live,
    "limits.max_replays_total": live,
    "limits.max_matches": _subscriptions,
    "limits.max_matches_per_user": _subscriptions,
    "limits.max_pending": _clients,
    "limits.max_pending_total": _outboxes,
    "limits.hold_ms": live,
    "limits.catchup_pending": _outboxes,
    "limits.answers_pending": _answers,
    "limits.write_deadline": live,
    "limits.ping_interval": live,
    "limits.ping_max": live,
    "limits.closings_logged": live,
    "limits.drain_timeout": live,
    "limits.lame_duck": live,
    "limits.lame_duck_grace": live,
}
# Applied at every reload if set: the files may have changed although the settings have not.
ALWAYS = ("tls.cert_file",)
