"""Advisories: what happens to streams and consumers, told to those that listen, as JSON.

    $JS.EVENT.ADVISORY.STREAM.CREATED.ORDERS
    $JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.ORDERS.desk
    $JS.EVENT.METRIC.CONSUMER.ACK.ORDERS.desk                 a sample of its acks (`sample_freq`)

They are nats-server's, get no number, no frame, and are not kept. Only subscriptions whose subject
begins with `$JS.` get them: who listens to `>` gets messages with numbers, and no others. While
nobody listens, an advisory costs one look at an empty list.

Memory: one entry for each such subscription, and for some of those that have ended.
"""

import random
import string
import time
from typing import Any, Final

from broker.dataplane.plane import Plane
from broker.streams.api_json import encode
from broker.streams.stream_consumer import Advice, StreamConsumer
from broker.streams.strict_json import GoTime
from sublist.subscription import Subscription

ADVISORY: Final = "$JS.EVENT.ADVISORY."
METRIC: Final = "$JS.EVENT.METRIC."
OWN: Final = b"$JS."
LETTERS: Final = string.digits + string.ascii_letters
ID_SIZE: Final = 22  # of nats-server's ids
# One advisory may be caused by a timer, whose work no client pays for. A monitor needs one
# subscription.
HEARD_MAX: Final = 1024
WORK: Final = 16  # cost of sending it to one subscription, in offers
SPARE: Final = 64

NEVER: Final = "0001-01-01T00:00:00Z"  # Go's zero time
WORDS_OF: Final = {"create": "CREATED", "modify": "UPDATED", "delete": "DELETED"}


class Advisories:
    """The advisories of a broker, for its one thread."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._listeners: list[Subscription] = []
        self._room = SPARE  # so many, and those that have ended are dropped

    def subscribed(self, sub: Subscription) -> None:
        """Take a subscription whose subject begins with `$JS.`."""
        if len(self._listeners) >= self._room:
            self._listeners = [one for one in self._listeners if one.owner is not None]
            self._room = 2 * len(self._listeners) + SPARE
        self._listeners.append(sub)

    @property
    def are_heard(self) -> bool:
        """True if somebody listens to one of them, perhaps."""
        listeners = self._listeners
        while listeners and listeners[-1].owner is None:
            listeners.pop()
        return bool(listeners)

    def of_stream(self, stream: str, action: str) -> None:
        """Tell that a stream was made, changed or deleted."""
        if self.are_heard:
            subject = f"{ADVISORY}STREAM.{WORDS_OF[action]}.{stream}"
            self._tell(subject, "advisory.v1.stream_action", {"stream": stream, "action": action})

    def of_consumer(self, consumer: StreamConsumer, action: str) -> None:
        """Tell that a consumer was made or deleted."""
        word = WORDS_OF[action]
        self._of(consumer, ADVISORY, word, "advisory.v1.consumer_action", {"action": action})

    def of_advice(self, consumer: StreamConsumer, advice: Advice) -> None:
        """Tell what a consumer's state machine asks to tell."""
        message: dict[str, Any] = {"consumer_seq": advice.number, "stream_seq": advice.sequence}
        message["deliveries"] = advice.deliveries
        match advice.kind:
            case "nak":
                self._of(consumer, ADVISORY, "MSG_NAKED", "advisory.v1.nak", message)
            case "terminated":
                message |= {"reason": advice.reason} if advice.reason else {}
                self._of(consumer, ADVISORY, "MSG_TERMINATED", "advisory.v1.terminated", message)
            case "max_deliveries":
                del message["consumer_seq"]
                self._of(consumer, ADVISORY, "MAX_DELIVERIES", "advisory.v1.max_deliver", message)
            case "pause":
                until = consumer.config.pause_until
                is_paused = consumer.paused_until > 0
                shown = until.text() if is_paused and until is not None else NEVER
                state = {"paused": is_paused, "pause_until": shown}
                self._of(consumer, ADVISORY, "PAUSE", "advisory.v1.consumer_pause", state)

    def of_ack(
        self, consumer: StreamConsumer, sequence: int, number: int, deliveries: int, took: int
    ) -> None:
        """Tell how long an ack took, in ns."""
        message = {"consumer_seq": number, "stream_seq": sequence, "ack_time": took}
        message["deliveries"] = deliveries
        self._of(consumer, METRIC, "ACK", "metric.v1.consumer_ack", message)

    def _of(
        self, consumer: StreamConsumer, kind: str, word: str, name: str, fields: dict[str, Any]
    ) -> None:
        if self.are_heard:
            whose = {"stream": consumer.stream, "consumer": consumer.name}
            subject = f"{kind}CONSUMER.{word}.{consumer.stream}.{consumer.name}"
            self._tell(subject, name, whose | fields)

    def _tell(self, subject: str, name: str, fields: dict[str, Any]) -> None:
        told = subject.encode()
        found = self._heard_by(told)
        if not found:
            return
        head = {
            "type": f"io.nats.jetstream.{name}",
            "id": "".join(random.choices(LETTERS, k=ID_SIZE)),
            "timestamp": GoTime(time.time_ns()).text(),
        }
        body = encode(head | fields)
        self._plane.charge_work(WORK * len(found))
        for sub in found:
            self._plane.hand_to(sub, told, b"", body, b"")

    def _heard_by(self, subject: bytes) -> list[Subscription]:
        """Return the subscriptions that get an advisory: of a queue group, one."""
        trie = self._plane.sublist.trie
        found: list[Subscription] = []
        groups: dict[bytes, list[Subscription]] = {}
        for sub in (*trie.literal(subject), *trie.wild(subject)):
            if sub.owner is None or not sub.subject.startswith(OWN):
                continue
            if sub.denied is not None and sub.denied.takes(subject):
                continue
            if sub.queue is None:
                found.append(sub)
            else:
                groups.setdefault(sub.queue, []).append(sub)
        found += (random.choice(members) for members in groups.values())
        return found[:HEARD_MAX]


def percentage(sample_freq: str) -> int:
    """Return the percentage of acks to report, of a text that has been checked."""
    return int(sample_freq.removesuffix("%")) if sample_freq else 0
