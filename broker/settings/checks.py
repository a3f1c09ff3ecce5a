"""Checks relations between settings, after each value has been checked alone."""

from collections.abc import Mapping
from typing import Any

from broker.addresses import overlap
from broker.dataplane.kinds import ORDINARY, Classifier
from broker.settings.authorization_checks import wrong_hash
from broker.settings.catalog import LISTENERS, SETTINGS
from broker.settings.cluster_checks import cluster_relations
from broker.settings.feed_checks import feed_relations
from broker.settings.secured_checks import secured_relations
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
        "limits.hold_pending",
        "limits.max_pending",
        "a subscriber would be closed before it could hold anyone",
    ),
    (
        "limits.catchup_pending",
        "limits.max_pending",
        "a subscriber would be closed before it could be served from the journal",
    ),
)


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
            f"{_place('server_name', origins)}: {quoted(values['server_name'])} contains a blank;"
            " clients expect a name without blanks"
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
    kind = Classifier(exclude, values["limits.max_subject_tokens"])
    if not values["sequencer.port"] or kind(subject.encode()) == ORDINARY:
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
