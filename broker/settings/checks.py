"""Checks relations between settings, after each value has been checked alone."""

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from broker.addresses import EVERYWHERE, is_loopback, overlap
from broker.dataplane.kinds import ORDINARY, Classifier
from broker.settings.authorization_checks import wrong_hash
from broker.settings.catalog import FEEDS, LISTENERS, SETTINGS
from broker.settings.feed_settings import PACKING_BYTES_MIN, FeedSettings
from broker.settings.network_kinds import host_and_port
from broker.settings.tables import show_entry
from seriatim.settings.checked import quoted

ADDRESSES = frozenset(
    (
        *("host", "port", "http_host", "http_port", "listeners", "sequencer.host"),
        *("sequencer.port", "cluster.name", "cluster.host", "cluster.port"),
        *("https_port", "websocket.port", "websocket.host"),
    )
)
PLACES = {
    "WebSocket": "websocket.port",
    "monitoring": "http_port",
    "cquencer's port": "sequencer.port",
    "the port for members": "cluster.port",
}

# Settings with which those of a cluster are compared.
CLUSTERED = frozenset(
    (
        *("host", "feeds", "sequencer.exclude", "sequencer.port"),
        *("journal.enabled", "journal.retain_age", "journal.dedupe_window"),
    )
)

# (smaller, larger, why): the first must not be above the second.
ORDERED = (
    (
        "limits.max_payload",
        "limits.max_pending",
        "every subscriber of such a message would be a slow consumer",
    ),
    (
        "limits.catchup_pending",
        "limits.max_pending",
        "a subscriber would be closed before it could be served from the journal",
    ),
)
Place = Callable[[str], str]  # how a setting is named where it was set
NEEDING_CERTIFICATE: Final = (
    *("tls.key_file", "tls.verify", "tls.verify_and_map", "tls.pinned_certs"),
    *("tls.allow_non_tls", "tls.handshake_first"),
)
FLUSHED: Final = 65536  # bytes that a client may put into a frame before its last message


# (smaller, larger, why): the first must be below the second.
RISING = (
    (
        "cluster.slow",
        "cluster.dead",
        "a follower with a broken link would take over before the coordinator goes on without it",
    ),
    ("cluster.dead", "cluster.stranded", "clients would be sent away before another takes over"),
)

# IPv6 groups of one machine or one link: the address does not say which interface is meant.
ONE_LINK = {1, 2}
ONLY_WITH_REREQUESTS = (
    "rerequest_host",
    "rerequest_rate",
    "rerequest_total_rate",
    "rerequest_percent",
)


# The settings of a cluster's member.


def cluster_relations(
    values: Mapping[str, Any], shown: Callable[[str], str], place: Place
) -> list[str]:
    """Return every problem of a broker with these settings. `shown` gives a value as text."""
    if not values["cluster.name"]:
        return [
            f"{place(path)}: does nothing without a cluster; give --cluster NAME, or leave it out"
            for path in ("cluster.etcd", "cluster.advertise", "cluster.secret_file")
            if values[path]
        ]
    problems = [
        f"{place(small)}: {shown(small)} is not below {large}, which is {shown(large)}: {why}"
        for small, large, why in RISING
        if values[small] >= values[large]
    ]
    return [*problems, *_missing(values, place), *_refused(values, place)]


def _missing(values: Mapping[str, Any], place: Place) -> list[str]:
    problems = []
    if not values["cluster.etcd"]:
        problems.append(
            f"{place('cluster.etcd')}: is missing; give --etcd http://HOST:2379,... with the"
            " endpoints of the etcd that keeps the cluster's view"
        )
    advertised = _advertised_host(values)
    if advertised in EVERYWHERE:
        problems.append(
            f"{place('cluster.advertise')}: is missing; `host` is {values['host']}, so clients"
            " cannot be told where this broker is; give --advertise HOST:PORT"
        )
    if not values["cluster.secret_file"] and not _is_private(values, advertised):
        problems.append(
            f"{place('cluster.secret_file')}: is missing; anyone who reaches this member's port"
            " could join the cluster; make a secret with `openssl rand -hex 32 > FILE`, and give"
            " --cluster_secret FILE to all members"
        )
    if values["cluster.tls"] in ("on", "optional"):
        wanted = values["cluster.tls"]
        problems += [
            f"{place(path)}: is missing; members speak TLS with it (cluster.tls is {wanted})"
            for path in ("tls.cert_file", "tls.ca_file")
            if not values[path]
        ]
    if values["cluster.etcd_user"] and not values["cluster.etcd_password_file"]:
        problems.append(
            f"{place('cluster.etcd_password_file')}: is missing, the password of"
            f" {values['cluster.etcd_user']}"
        )
    if values["cluster.etcd_key"] and not values["cluster.etcd_cert"]:
        problems.append(f"{place('cluster.etcd_cert')}: is missing, the certificate of the key")
    return problems


def _refused(values: Mapping[str, Any], place: Place) -> list[str]:
    """Return problems with settings that only a single broker supports."""
    problems = []
    if not values["journal.enabled"]:
        problems.append(
            f"{place('journal.enabled')}: the members of a cluster keep the journal together;"
            " leave out --no-journal"
        )
    age = values["journal.retain_age"]
    if age and age < values["journal.dedupe_window"]:
        problems.append(
            f"{place('journal.retain_age')}: is below journal.dedupe_window: a new coordinator"
            " would not know the ids of messages that are deleted"
        )
    return problems


def _advertised_host(values: Mapping[str, Any]) -> str:
    """Return the host that clients are sent to."""
    advertise = values["cluster.advertise"]
    host: str = host_and_port(advertise)[0] if advertise else values["host"]
    return host


def _is_private(values: Mapping[str, Any], advertised: str) -> bool:
    """True if the member is on loopback only: its own port, and the address it advertises."""
    member = values["cluster.member_advertise"]
    told = host_and_port(member)[0] if member else advertised
    return is_loopback(values["cluster.host"] or values["host"]) and is_loopback(told)


# The settings of feeds.


def feed_relations(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield every broken relation of the feeds in `values`."""
    feeds: Sequence[FeedSettings] = values["feeds"]
    for feed in feeds:
        for problem in (*_addressing(feed), *_contents(feed)):
            yield f"the feed {feed.label}: {problem}"
    yield from _shared(feeds)
    yield from _shared_rerequests(feeds, values["host"])
    if feeds and not values["journal.enabled"] and not values["journal.ring_bytes"]:
        yield (
            "a feed sends what is kept, but nothing is kept: leave out --no-journal, or give"
            " --ring_bytes"
        )


def _addressing(feed: FeedSettings) -> Iterator[str]:
    try:
        family: int | None = ipaddress.ip_address(feed.interface).version
    except ValueError:
        family = None  # a name, or nothing
    if family == 6:
        yield f'"{feed.interface}" is an IPv6 address; give the interface by its name'
    elif family and feed.version == 6:
        yield (
            f'"{feed.interface}" is an IPv4 address, and the group is IPv6; give the'
            " interface by its name"
        )
    if feed.version == 6:
        scope = ipaddress.IPv6Address(feed.group).packed[1] & 15
        if scope in ONE_LINK and not feed.interface:
            yield "its group is limited to one link; give the interface"


def _contents(feed: FeedSettings) -> Iterator[str]:
    if feed.packing and feed.packing_bytes < PACKING_BYTES_MIN:
        yield (
            f"a datagram of {feed.datagram_bytes} bytes has no room to pack messages into; give"
            f" datagram_bytes of {PACKING_BYTES_MIN} or more, or no packing"
        )
    if feed.packing_bytes > feed.datagram_max:
        yield (
            f"datagram_bytes of {feed.datagram_bytes} is above {feed.datagram_max}, the longest"
            " datagram of IPv6"
        )
    if feed.rerequest_port and feed.codec != "moldudp64":
        yield (
            f'rerequest_port goes with the codec moldudp64, and the codec here is "{feed.codec}":'
            " its receivers fetch what they missed with $SEQ.READ and $SEQ.INFO; leave the port out"
        )
    yield from _idle(feed)


def _idle(feed: FeedSettings) -> Iterator[str]:
    """Yield settings that would have no effect, although one is expected."""
    if not feed.rerequest_port and feed.codec == "moldudp64":
        remedy = "give that port too, or leave it out"
    else:
        remedy = "leave it out"
    if not feed.rerequest_port:
        for name in ONLY_WITH_REREQUESTS:
            if getattr(feed, name) != FEEDS.settings[name].default:
                yield f"{name} does nothing without rerequest_port; {remedy}"
    if feed.datagram_bytes and not (feed.packing or feed.rerequest_port):
        users = "packing, or rerequest_port" if feed.codec == "moldudp64" else "packing"
        yield f"datagram_bytes does nothing without {users}; give that too, or leave it out"


def _shared(feeds: Sequence[FeedSettings]) -> Iterator[str]:
    for at, feed in enumerate(feeds):
        where = (feed.group, feed.port, feed.interface)
        for other in feeds[:at]:
            if where == (other.group, other.port, other.interface):
                yield (
                    f"the feeds {other.label} and {feed.label} would both go to {feed.address};"
                    " give one of them another group or port"
                )
            elif feed.label == other.label:
                yield f'two feeds are called "{feed.label}"; give each a name of its own'


def _shared_rerequests(feeds: Sequence[FeedSettings], host: str) -> Iterator[str]:
    asked = [feed for feed in feeds if feed.rerequest_port > 0]
    for at, feed in enumerate(asked):
        for other in asked[:at]:
            hosts = (feed.rerequest_host or host, other.rerequest_host or host)
            if feed.rerequest_port == other.rerequest_port and overlap(*hosts):
                yield (
                    f"the feeds {other.label} and {feed.label} would share rerequest_port"
                    f" {feed.rerequest_port}; give one of them another"
                )


# The settings of TLS, WebSocket and monitoring over TLS. The files are read when the broker starts:
# broker/wires/tls_contexts.py.


def secured_relations(values: Mapping[str, Any], place: Place) -> list[str]:
    """Return every problem of a broker with these settings."""
    return [*_of_tls(values, place), *_of_https(values, place), *_of_websocket(values, place)]


def _has_tls(values: Mapping[str, Any]) -> bool:
    return bool(values["tls.enabled"] or values["tls.cert_file"])


def _of_tls(values: Mapping[str, Any], place: Place) -> list[str]:
    if values["tls.enabled"] and not values["tls.cert_file"]:
        return [f"{place('tls.enabled')}: TLS needs a certificate; give --tlscert and --tlskey"]
    if not values["tls.cert_file"]:
        return [
            f"{place(path)}: does nothing without a certificate; give --tlscert, or leave it out"
            for path in NEEDING_CERTIFICATE
            if values[path]
        ]
    verifying = [path for path in ("tls.verify", "tls.verify_and_map") if values[path]]
    if verifying and not values["tls.ca_file"]:
        return [
            f"{place(verifying[0])}: needs the certificates that sign those of clients; give"
            " --tlscacert"
        ]
    problems = []
    if values["tls.pinned_certs"] and not verifying:
        problems.append(
            f"{place('tls.pinned_certs')}: clients are not asked for certificates; give --tlsverify"
        )
    if values["tls.allow_non_tls"] and values["tls.handshake_first"]:
        problems.append(
            f"{place('tls.allow_non_tls')}: clients without TLS wait for INFO, and with"
            " tls.handshake_first the broker waits for them; leave one of the two out"
        )
    return problems


def _of_https(values: Mapping[str, Any], place: Place) -> list[str]:
    if not values["https_port"]:
        return []
    problems = []
    if values["http_port"]:
        problems.append(
            f"{place('https_port')}: there is http_port as well; give one of them, as in"
            " nats-server"
        )
    if not _has_tls(values):
        problems.append(f"{place('https_port')}: needs a certificate; give --tlscert and --tlskey")
    return problems


def _of_websocket(values: Mapping[str, Any], place: Place) -> list[str]:
    if not values["websocket.port"]:
        return []
    problems = []
    host = values["websocket.host"] or values["host"]
    if not (_has_tls(values) or values["websocket.no_tls"] or is_loopback(host)):
        problems.append(
            f"{place('websocket.port')}: without TLS everybody on the way reads along; give"
            " --tlscert and --tlskey, or --websocket_no_tls behind a proxy that has TLS, or"
            " --websocket_host 127.0.0.1"
        )
    if values["websocket.max_frame"] < values["limits.max_payload"] + FLUSHED:
        problems.append(
            f"{place('websocket.max_frame')}: is too small for limits.max_payload, which is"
            f" {values['limits.max_payload']}: clients put up to 64 KiB of other messages into the"
            " same frame; raise websocket.max_frame or lower limits.max_payload"
        )
    return problems


def relations(values: Mapping[str, Any], origins: Mapping[str, str], broken: set[str]) -> list[str]:
    """Return every broken relation. Settings in `broken` are wrong already, and are skipped."""
    problems = []
    for small, large, why in ORDERED:
        if not broken & {small, large} and values[small] > values[large]:
            problems.append(_out_of_order(small, large, why, values, origins))
    if not broken & ADDRESSES:
        problems += _shared_addresses(values, origins)
        ports = ("port", "sequencer.port", "websocket.port")
        if not (any(values[path] for path in ports) or values.get("listeners")):
            place = _place("port", origins)
            problems.append(
                f"{place}: 0 turns this port off, and no other port is set;"
                " give 1 to 65535, -1 for any free port, or a sequencer.port"
            )
    if not broken & {"sequencer.subject", "sequencer.exclude", "limits.max_subject_tokens"}:
        problems += _unnumbered(values, origins)
    if not broken & (CLUSTERED | {path for path in values if path.startswith("cluster.")}):
        problems += cluster_relations(
            values, lambda path: SETTINGS[path].show(values[path]), lambda p: _place(p, origins)
        )
    if not broken & {"feeds", "host", "journal.enabled", "journal.ring_bytes"}:
        problems += [f"{_place('feeds', origins)}: {one}" for one in feed_relations(values)]
    if values["log_file"] and values["log_file"] == values["pid_file"]:
        problems.append(
            f"{_place('pid_file', origins)}: is the log file as well; give each a file of its own"
        )
    if values["journal.enabled"] and not values["store_dir"]:
        problems.append(
            f"{_place('store_dir', origins)}: there is no home directory to keep the journal in;"
            " give --store_dir, or --no-journal"
        )
    problems += _of_monitoring(values, origins)
    problems += _of_proxies(values, origins)
    problems += secured_relations(values, lambda path: _place(path, origins))
    if any(character.isspace() for character in values["server_name"]):
        problems.append(
            f"{_place('server_name', origins)}: {quoted(values['server_name'])} contains a space;"
            " clients expect a name without spaces"
        )
    return problems


def _of_monitoring(values: Mapping[str, Any], origins: Mapping[str, str]) -> list[str]:
    """Check that the user of monitoring has a password, and the password a user."""
    user, password = values["http_user"], values["http_password"]
    if user and not password:
        return [f"{_place('http_user', origins)}: has no password; give --http_pass"]
    if password and not user:
        return [f"{_place('http_password', origins)}: there is no user for it; give --http_user"]
    if ":" in user:
        return [f"{_place('http_user', origins)}: has a colon, which HTTP Basic cannot send"]
    if why := wrong_hash(password):
        return [f"{_place('http_password', origins)}: {why}"]
    return []


def _of_proxies(values: Mapping[str, Any], origins: Mapping[str, str]) -> list[str]:
    """Check that a proxies' header and the addresses of trusted proxies are given together."""
    if values["proxy_header"] and not values["trusted_proxies"]:
        place = _place("proxy_header", origins)
        return [f"{place}: anybody can send it; give the proxies' addresses: --trusted_proxies"]
    if values["trusted_proxies"] and not values["proxy_header"]:
        return [
            f"{_place('trusted_proxies', origins)}: does nothing without the header in which they"
            " name their clients; give --proxy_header, such as X-Forwarded-For"
        ]
    return []


def _unnumbered(values: Mapping[str, Any], origins: Mapping[str, str]) -> list[str]:
    """Check that the subject of cquencer's clients has numbers: the number is their answer."""
    subject = values["sequencer.subject"]
    exclude = [pattern.encode() for pattern in values["sequencer.exclude"]]
    kinds = Classifier(exclude, values["limits.max_subject_tokens"])
    if not values["sequencer.port"] or kinds.kind_of(subject.encode()) == ORDINARY:
        return []
    path = "sequencer.exclude" if origins["sequencer.subject"] == "default" else "sequencer.subject"
    return [
        f"{_place(path, origins)}: messages to {quoted(subject)}, the subject of cquencer's"
        " clients, would have no number; choose another subject"
    ]


def _place(path: str, origins: Mapping[str, str]) -> str:
    """Return the name of a setting in the place where it was set."""
    return path if origins[path] == "default" else origins[path]


def _out_of_order(
    small: str, large: str, why: str, values: Mapping[str, Any], origins: Mapping[str, str]
) -> str:
    smaller, larger = SETTINGS[small].show(values[small]), SETTINGS[large].show(values[large])
    blamed, other = (small, large) if origins[small] != "default" else (large, small)
    word = "above" if blamed == small else "below"
    own, others = (smaller, larger) if blamed == small else (larger, smaller)
    named = SETTINGS[other].name
    if origins[other] == "default":
        named += f", which is {others} by default"
    else:
        named += f" ({others}, from {origins[other]})"
    remedy = f"lower {SETTINGS[small].name} or raise {SETTINGS[large].name}"
    return f"{_place(blamed, origins)}: {own} is {word} {named}: {why}; {remedy}"


def _shared_addresses(values: Mapping[str, Any], origins: Mapping[str, str]) -> list[str]:
    taken = [("the first listener", values["host"], values["port"])]
    host = values["sequencer.host"] or values["host"]
    taken.append(("cquencer's port", host, values["sequencer.port"]))
    problems = []
    for listener in values.get("listeners", ()):
        shown = show_entry(LISTENERS, listener)
        taken.append((f"the listener {shown}", listener.host, listener.port))
    for path in ("http_port", "https_port"):
        if values[path]:
            taken.append(("monitoring", values["http_host"], values[path]))
    if values["websocket.port"]:
        host = values["websocket.host"] or values["host"]
        taken.append(("WebSocket", host, values["websocket.port"]))
    if values["cluster.name"]:
        host = values["cluster.host"] or values["host"]
        taken.append(("the port for members", host, values["cluster.port"]))
    for at, (name, host, port) in enumerate(taken):
        for other_name, other_host, other_port in taken[:at]:
            if port == other_port and port > 0 and overlap(host, other_host):
                path = PLACES.get(name, "listeners")
                problems.append(
                    f"{_place(path, origins)}: {name} and {other_name} would share port {port};"
                    " give one of them another"
                )
    return problems
