"""INFO: what a client learns of the broker, first thing and whenever that changes."""

import json
from typing import Any, Protocol

from broker.clients.admission import Admission
from broker.clients.lame_duck import LameDuck
from broker.clients.session import Session
from broker.cluster_side import ClusterSide
from broker.settings.settings import Settings
from broker.version import NATS_VERSION, PYTHON, VERSION


class Described(Protocol):
    """A server, as INFO describes it."""

    server_id: str
    name: str
    settings: Settings
    admission: Admission
    lame_duck: LameDuck
    cluster: ClusterSide | None


def info_line(server: Described, session: Session, greeting: bool) -> bytes:
    """Return the INFO line for one client; `greeting`: it answers the client's first PING."""
    settings = server.settings
    web = session.listener.kind == "websocket"
    host, port = ("", 0) if web else settings.advertised
    fields: dict[str, Any] = {
        "server_id": server.server_id,
        "server_name": server.name,
        "version": NATS_VERSION,
        "seriatim": VERSION,
        "proto": 1,
        "git_commit": "",
        "go": PYTHON,
        "headers": not settings.no_header_support,
        "max_payload": settings.limits.max_payload,
        "host": host or session.listener.host,
        "port": port or session.listener.port,
        "client_id": session.cid,
        "client_ip": session.ip,
        "frame": session.frame,
        **server.admission.info,
    }
    if session.nonce:
        fields["nonce"] = session.nonce
    if session.listener.tls:
        may_do_without = settings.tls.allow_non_tls and not web
        if not may_do_without:
            fields["tls_required"] = True
        if web or may_do_without:
            fields["tls_available"] = True
        if settings.tls.is_verifying:
            fields["tls_verify"] = True
    if server.cluster is not None:
        fields["cluster"] = settings.cluster.name
        if not web:  # they lead to NATS' own port
            fields["connect_urls"] = server.cluster.client_addresses(server.lame_duck.is_on)
    if server.lame_duck.is_on:
        fields["ldm"] = True
    if greeting:
        fields |= {"connect_info": True, "remote_account": "$G"}
    return b"INFO %b \r\n" % json.dumps(fields, separators=(",", ":")).encode()
