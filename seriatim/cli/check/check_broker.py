"""`seriatim check nats://...`: whether a broker lets us in, answers, and has a healthy journal.

The same for tls://, ws:// and wss://: the client hides the transport.
"""

import time
from dataclasses import dataclass, field
from typing import Final

from broker.addresses import is_loopback
from sequencer.netstring import NetstringError, decode_number
from seriatim.cli.broker_access import BrokerAccess
from seriatim.cli.check.check_results import CheckResults
from seriatim.cli.check.validity import judge
from seriatim.client.bulk_connection import BulkConnection, ConnectOptions
from seriatim.client.errors import BrokerError, ConnectionLost
from seriatim.client.peer_json import read_object
from seriatim.client.server_address import ServerAddress

INFO: Final = "$SEQ.INFO"
PUBLISH: Final = "$SEQ.PUB."
PAYLOAD: Final = b"seriatim check"
SLOW: Final = 1.0  # seconds of a round trip that are worth a warning


@dataclass(frozen=True, slots=True)
class Approach:
    """How to connect to a broker; times in seconds."""

    access: BrokerAccess = field(default_factory=BrokerAccess)
    timeout: float = 5.0
    publish: str = ""  # a subject to publish to; empty: publish nothing
    origin: str = ""  # the origin of a page, for a WebSocket; empty: as a client without a page


def check_broker(results: CheckResults, address: ServerAddress, approach: Approach) -> None:
    """Connect, and query the broker without changing anything, unless `publish` is given."""
    seconds = approach.timeout
    options = ConnectOptions(
        name="seriatim check",
        **approach.access.connect_options(),
        connect_timeout=seconds,
        timeout=seconds,
        origin=approach.origin,
    )
    try:
        client = BulkConnection.connect([address], options)
    except BrokerError as error:
        results.fail("connection", str(error))
        return
    with client:
        try:
            _report_info(results, client, approach.origin)
            _measure(results, client)
            _ask_journal(results, client)
            if approach.publish:
                _publish(results, client, approach.publish)
        except ConnectionLost as error:
            results.fail("connection", str(error))


def _report_info(results: CheckResults, client: BulkConnection, origin: str) -> None:
    """Report the facts of INFO and of the handshakes."""
    info = client.info
    version = info.get("seriatim") or info.get("version", "?")
    product = "seriatim" if "seriatim" in info else "nats-server"
    results.ok("connection", f"{product} {version}, {info.get('server_name', '')}")
    if info.get("ldm"):
        results.warn("state", "it is a lame duck: it sends its clients away, and will stop")
    if client.server.web_path:
        whom = f"pages of {origin}" if origin else "clients without an origin"
        results.ok("websocket", f"it accepts {whom}")
    if client.tls_version:
        results.ok("tls", client.tls_version)
        judge(results, "certificate", client.certificate)
    elif info.get("auth_required"):
        results.warn("tls", "passwords and messages cross the network in plain text")
    if info.get("auth_required"):
        results.ok("authorization", "credentials accepted")
    else:
        say = results.ok if is_loopback(client.server.host) else results.warn
        say("authorization", "no authentication required")


def _measure(results: CheckResults, client: BulkConnection) -> None:
    begun = time.monotonic()
    client.flush()
    seconds = time.monotonic() - begun
    say = results.warn if seconds > SLOW else results.ok
    say("ping", f"{seconds * 1000:.1f} ms")


def _ask_journal(results: CheckResults, client: BulkConnection) -> None:
    """Report the journal's state from `$SEQ.INFO`."""
    try:
        facts = read_object(client.request(INFO).check(INFO).payload)
    except ConnectionLost:
        raise
    except (BrokerError, ValueError) as error:
        results.warn("journal", f"cannot query it: {error}")
        return
    kept = {"none": "not kept", "memory": "in memory", "disk": "on disk"}
    where = kept.get(str(facts.get("store")), "?")
    text = f"messages are {where}, the last number is {facts.get('last')}"
    if facts.get("full"):
        results.fail(
            "journal", f"{text}; publishers are refused, because the disk is full or fails"
        )
    else:
        results.ok("journal", text)


def _publish(results: CheckResults, client: BulkConnection, subject: str) -> None:
    """Publish a message, and get its number."""
    try:
        answer = client.request(PUBLISH + subject, PAYLOAD).check(subject)
        number = decode_number(bytes(answer.payload))
    except ConnectionLost:
        raise
    except (BrokerError, NetstringError) as error:
        results.fail("publish", f"{subject}: {error}")
    else:
        results.ok("publish", f"{subject}: number {number}")
