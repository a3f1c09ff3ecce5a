"""Every setting of the broker: its name, kind, default, bounds and reason, in one table.

A setting is a field, as seriatim/settings/setting.py explains. Those of the cluster, the
journal, the feeds and staging are in files of their own.

The running broker imports this module, so it imports nothing that asyncio does not. It checks
nothing: `seriatim serve` has checked the settings that `settings_from_json` reads.
"""

import dataclasses
import json

from broker.settings.authorization_settings import (
    AuthorizationSettings,
    authorization_from_json,
)
from broker.settings.cluster_settings import ClusterSettings
from broker.settings.feed_settings import FeedSettings
from broker.settings.journal_settings import JournalSettings
from broker.settings.limits_settings import Limits
from broker.settings.staging_settings import StagingSettings
from broker.settings.stream_settings import StreamSettings
from broker.settings.tls_settings import BrokerTlsSettings
from broker.settings.websocket_settings import WebSocketSettings
from seriatim.settings.frozen_fields import FrozenFields
from seriatim.settings.setting import setting

FRAMES = ("netstring", "header", "stamp", "none")
LOOPS = ("auto", "asyncio", "uvloop")
FRAMINGS = ("recv", "netstring")
LOG_FORMATS = ("text", "json")


class Listener(FrozenFields):
    """One more address to listen on, with a frame of its own."""

    host: str = setting(
        "0.0.0.0",
        "host",
        "The address to listen on. All interfaces by default, like the first listener.",
    )
    port: int = setting(
        dataclasses.MISSING,
        "port",
        "The port to listen on. It has no default, because two listeners cannot share one address.",
        bounds=(-1, 65535),
        zero="-1: any free port",
    )
    frame: str = setting(
        "netstring",
        "choice",
        "How messages carry their number on this listener. The broker's `frame` if it is left out.",
        choices=FRAMES,
    )
    tls: bool = setting(
        True,
        "flag",
        "Whether clients of this listener must use TLS, if the broker has it ([tls]). False is for"
        " clients that come another protected way: a tunnel, a sidecar, loopback.",
    )


class SequencerSettings(FrozenFields):
    """The numbering of messages, and the port for cquencer's clients."""

    exclude: tuple[str, ...] = setting(
        (),
        "list",
        "Subjects whose messages get no number and no frame. Exclude `_INBOX.>` if there is much"
        " request/reply. Empty by default: every message has a number.",
        flags=("--exclude",),
        common=True,
    )
    port: int = setting(
        0,
        "port",
        "The port for cquencer's clients: each message they send is answered with its number. Off"
        " by default. docs/from-cquencer.md explains what it is for.",
        flags=("--sequencer_port",),
        bounds=(-1, 65535),
        zero="0: off; -1: any free port",
        common=True,
    )
    host: str = setting(
        "",
        "host",
        "The address for cquencer's clients.",
        flags=("--sequencer_host",),
        zero="empty: the same as `host`",
    )
    framing: str = setting(
        "recv",
        "choice",
        "Where a message from cquencer's clients ends. `recv`, as in cquencer: what one recv"
        " returns is one message, so a client waits for the answer before it sends the next."
        " `netstring`: a client need not wait, and can send any message.",
        flags=("--sequencer_framing",),
        choices=FRAMINGS,
    )
    subject: str = setting(
        "cq",
        "subject",
        "The subject of messages from cquencer's clients, for subscribers and in the journal.",
        flags=("--sequencer_subject",),
    )
    user: str = setting(
        "",
        "text",
        "The user for clients of the cquencer port: its protocol has no login.",
        flags=("--sequencer_user",),
        zero="empty: `authorization.no_auth_user`",
        reload=True,
    )


class Settings(FrozenFields):
    """All settings of a broker."""

    host: str = setting(
        "0.0.0.0",
        "host",
        "The address to listen on for clients. 0.0.0.0 and :: mean all interfaces, IPv4 and IPv6,"
        " as in nats-server. Give the address of one interface to listen on that one only.",
        flags=("-a", "--net", "--addr"),
        common=True,
    )
    port: int = setting(
        4222,
        "port",
        "The port to listen on for clients. NATS clients use 4222 by default.",
        flags=("-p", "--port"),
        bounds=(-1, 65535),
        zero="0: none, if clients can come in another way; -1: any free port",
        common=True,
    )
    frame: str = setting(
        "netstring",
        "choice",
        "How a message carries its number. `netstring`: the payload is a nested netstring that"
        " holds the number. `header`: in the header `Nats-Sequence`. `stamp`: the same, and the"
        " message's time in the header `Nats-Time-Stamp`. `none`: not at all, as in nats-server."
        " A client may choose its own.",
        flags=("--frame",),
        choices=FRAMES,
        common=True,
    )
    server_name: str = setting(
        "",
        "text",
        "The name that clients and monitoring see.",
        flags=("-n", "--name", "--server_name"),
        zero="empty: the server's id",
        common=True,
    )
    no_header_support: bool = setting(
        False,
        "flag",
        "Serve all clients without headers: INFO says `headers: false`, and a client that sends"
        " HPUB is closed. So there are no statuses, such as 503 without responders, and no numbers"
        " with the frames `header` and `stamp`. nats-server's name; only to test clients that meet"
        " old servers.",
        flags=("--no_header_support",),
    )
    client_advertise: str = setting(
        "",
        "advertised",
        "The address that clients are told in INFO, as `host` and `port`, if they reach the broker"
        " by another one than it listens on: behind a load balancer, or in a container. The port"
        " is the listener's if it is left out. A member of a cluster tells all clients the"
        " addresses of all members besides; its own among these is `cluster.advertise`.",
        flags=("--client_advertise",),
        zero="empty: the address of the listener",
        reload=True,
    )
    proxy_header: str = setting(
        "",
        "header",
        "The header of HTTP in which a proxy in front names the client's address, such as"
        " X-Forwarded-For: for WebSocket and monitoring. That address then counts for limits,"
        " logins and the log. Only `trusted_proxies` are believed.",
        flags=("--proxy_header",),
        zero="empty: the address of the peer counts",
        reload=True,
    )
    trusted_proxies: tuple[str, ...] = setting(
        (),
        "networks",
        "The addresses and networks of the proxies whose `proxy_header` is believed. They have no"
        " limit of connections for each address.",
        flags=("--trusted_proxies",),
        reload=True,
    )
    http_host: str = setting(
        "",
        "host",
        "The address for HTTP monitoring. By default a broker bound to loopback is monitored on"
        " loopback only.",
        flags=("--http_host",),
        zero="empty: the same as `host`",
    )
    http_port: int = setting(
        0,
        "port",
        "The port for HTTP monitoring. Off by default, because it answers anyone who can connect."
        " nats-server uses 8222. docs/monitoring.md describes the pages.",
        flags=("-m", "--http_port"),
        bounds=(-1, 65535),
        zero="0: off; -1: any free port",
        common=True,
    )
    http_user: str = setting(
        "",
        "text",
        "The user who may read the monitoring pages (HTTP Basic), with `http_password`."
        " `/healthz` needs no user: probes have none, and it only says whether the broker is"
        " well.",
        flags=("--http_user",),
        zero="empty: everybody may read them",
        reload=True,
        common=True,
    )
    http_password: str = setting(
        "",
        "secret",
        "The password of `http_user`, in plain text or as a bcrypt hash.",
        flags=("--http_pass",),
        reload=True,
        common=True,
    )
    http_messages: bool = setting(
        False,
        "flag",
        "Show messages on the live page of the monitoring port. Each viewer is a client of the"
        " broker: with `authorization`, the page asks for a user, and shows what that user may"
        " read.",
        flags=("--http_messages",),
        reload=True,
        common=True,
    )
    https_port: int = setting(
        0,
        "port",
        "The port for monitoring over TLS, with the certificate of `tls`: instead of `http_port`.",
        flags=("-ms", "--https_port"),
        bounds=(-1, 65535),
        zero="0: off; -1: any free port",
    )
    store_dir: str = setting(
        "",
        "text",
        "The directory of the journal, created if it is missing. Only one broker at a time may use"
        " it.",
        flags=("-sd", "--store_dir"),
        zero="empty: $XDG_STATE_HOME/seriatim, else /var/lib/seriatim for root and"
        " ~/.local/state/seriatim for others",
        common=True,
    )
    log_file: str = setting(
        "",
        "text",
        "The file to log to. Containers and systemd read standard error.",
        flags=("-l", "--log"),
        zero="empty: standard error",
        reload=True,
        common=True,
    )
    log_format: str = setting(
        "text",
        "choice",
        "How a line of the log is written. `text` is for people, as in nats-server. `json` is for"
        " programs: one object a line, with `time`, `level` and `message`, and `client` and `cid`"
        " if it is about a client.",
        flags=("--log_format",),
        choices=LOG_FORMATS,
        reload=True,
        common=True,
    )
    pid_file: str = setting(
        "",
        "text",
        "The file to write the process id to.",
        flags=("-P", "--pid"),
        zero="empty: none",
        common=True,
    )
    debug: bool = setting(
        False,
        "flag",
        "Log what connections do. Off by default, because each connection adds lines.",
        flags=("-D", "--debug"),
        reload=True,
        common=True,
    )
    trace: bool = setting(
        False,
        "flag",
        "Log every protocol operation. Off by default, because it costs most of the speed.",
        flags=("-V", "--trace"),
        reload=True,
    )
    loop: str = setting(
        "asyncio",
        "choice",
        "The event loop. `asyncio` is Python's, with a selector of our own. `uvloop` needs the"
        " package uvloop: slower for messages, faster for new connections. `auto` uses it if it is"
        " installed.",
        flags=("--loop",),
        choices=LOOPS,
    )
    listeners: tuple[Listener, ...] = dataclasses.field(default=())
    feeds: tuple[FeedSettings, ...] = dataclasses.field(default=())
    authorization: AuthorizationSettings = dataclasses.field(default_factory=AuthorizationSettings)
    cluster: ClusterSettings = dataclasses.field(default_factory=ClusterSettings)
    limits: Limits = dataclasses.field(default_factory=Limits)
    sequencer: SequencerSettings = dataclasses.field(default_factory=SequencerSettings)
    journal: JournalSettings = dataclasses.field(default_factory=JournalSettings)
    staging: StagingSettings = dataclasses.field(default_factory=StagingSettings)
    streams: StreamSettings = dataclasses.field(default_factory=StreamSettings)
    tls: BrokerTlsSettings = dataclasses.field(default_factory=BrokerTlsSettings)
    websocket: WebSocketSettings = dataclasses.field(default_factory=WebSocketSettings)

    @property
    def advertised(self) -> tuple[str, int]:
        """The host and the port of `client_advertise`; empty or 0 if it is not given."""
        text = self.client_advertise
        host, _, port = text.rpartition(":")
        if text.endswith("]") or not host:
            host, port = text, "0"
        return host.removeprefix("[").removesuffix("]"), int(port)


def settings_to_json(settings: Settings) -> str:
    """Encode `settings` as one line of JSON, for the process that runs the broker."""
    return json.dumps(dataclasses.asdict(settings))


def settings_from_json(text: str | bytes) -> Settings:
    """Read what `settings_to_json` wrote. Trusts these settings: they were checked before."""
    raw = json.loads(text)
    raw["listeners"] = tuple(Listener(**listener) for listener in raw["listeners"])
    raw["feeds"] = tuple(FeedSettings(**feed) for feed in raw["feeds"])
    raw["authorization"] = authorization_from_json(raw["authorization"])
    raw["cluster"]["etcd"] = tuple(raw["cluster"]["etcd"])
    raw["cluster"] = ClusterSettings(**raw["cluster"])
    raw["limits"] = Limits(**raw["limits"])
    raw["sequencer"]["exclude"] = tuple(raw["sequencer"]["exclude"])
    raw["sequencer"] = SequencerSettings(**raw["sequencer"])
    raw["journal"] = JournalSettings(**raw["journal"])
    raw["staging"] = StagingSettings(**raw["staging"])
    raw["streams"] = StreamSettings(**raw["streams"])
    raw["trusted_proxies"] = tuple(raw["trusted_proxies"])
    raw["tls"]["pinned_certs"] = tuple(raw["tls"]["pinned_certs"])
    raw["tls"] = BrokerTlsSettings(**raw["tls"])
    raw["websocket"]["allowed_origins"] = tuple(raw["websocket"]["allowed_origins"])
    raw["websocket"] = WebSocketSettings(**raw["websocket"])
    return Settings(**raw)
