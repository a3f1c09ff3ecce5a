"""The broker's rules without its data plane: every subscriber told one by one, all found naively.

It hears the same bytes as the real one, one chunk at a time and after it, and notes for each
link the events that its client must see. Where the real one is free, the model is told or
stays open: a group's member is any of them; which link was cut off as too slow, and how far
the plane read a link that cut itself off, it learns from the plane.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from fuzz.model_frame import HEADER, NETSTRING, NONE, Message, delivery, netstring
from fuzz.model_stream import Event
from fuzz.model_wire import Fault, Limits, Op, step
from parser.errors import quoted

INFO = b"INFO {} \r\n"  # what the fake session greets with; the real one has fields in it
EXCLUDED_TOKEN = b"x"  # `x.>` is excluded from the order, where anything is
BOOLS = ("verbose", "pedantic", "echo", "headers", "no_responders", "tls_required", "new_account")
STRINGS = ("name", "lang", "version", "account", "user", "pass", "auth_token", "jwt", "nkey", "sig")
SAID = {
    "UnknownOperation": b"Unknown Protocol Operation",
    "PayloadUnended": b"Unknown Protocol Operation",
    "ControlLineTooLong": b"maximum control line exceeded",
    "PayloadTooLarge": b"Maximum Payload Violation",
}
INVALID_PUBLISH = b"-ERR 'Invalid Publish Subject'\r\n"


@dataclass(eq=False, slots=True)
class Wish:
    """A subscription."""

    link: "ModelLink"
    subject: bytes
    sid: bytes
    queue: bytes
    delivered: int = 0
    limit: int = 0


@dataclass(eq=False, slots=True)
class ModelLink:
    """A client's connection: what it chose and asked for, and what it must be told."""

    frame: str
    options: dict[str, Any] = field(default_factory=dict)
    wishes: dict[bytes, Wish] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    buffer: bytes = b""
    consumed: int = 0  # bytes of whole operations so far
    closed: bool = False
    cut: bool = False
    greeted: bool = False
    in_msgs: int = 0
    in_bytes: int = 0

    def has(self, option: str) -> bool:
        """An option of CONNECT, or what it is before any."""
        return bool(self.options.get(option, option in ("verbose", "pedantic", "echo")))

    def tell(self, text: bytes) -> None:
        self.events.append(Event([text]))

    def refuse(self, words: bytes) -> None:
        self.tell(b"-ERR '%b'\r\n" % words)

    def oblige(self) -> None:
        if self.has("verbose"):
            self.tell(b"+OK\r\n")

    def chosen_frame(self) -> str:
        return str(self.options.get("frame", self.frame))


def tokens_match(pattern: bytes, subject: bytes) -> bool:
    """Whether a subscription takes in a published subject."""
    wanted, given = pattern.split(b"."), subject.split(b".")
    if not any(token == b"*" for token in wanted) and wanted[-1] != b">":
        return wanted == given
    if b"" in given:
        return False
    for at, token in enumerate(wanted):
        if token == b">":
            return len(given) > at
        if at >= len(given) or token not in (b"*", given[at]):
            return False
    return len(wanted) == len(given)


def is_pattern(subject: bytes) -> bool:
    """Whether one may subscribe to it."""
    tokens = subject.split(b".")
    return b"" not in tokens and b">" not in tokens[:-1]


def is_literal(subject: bytes) -> bool:
    """Whether a pedantic client may publish to it."""
    tokens = subject.split(b".")
    return not {b"", b"*", b">"} & set(tokens)


def has_wildcard(subject: bytes) -> bool:
    """Whether a token of it is just `*`, or just `>`."""
    return bool({b"*", b">"} & set(subject.split(b".")))


def begins(subject: bytes, *prefixes: bytes) -> bool:
    """Whether it has a prefix, and something behind it."""
    return any(subject[: len(prefix)] == prefix != subject for prefix in prefixes)


class Model:
    """All links and their subscriptions, and the last number."""

    def __init__(
        self, max_control_line: int, max_payload: int, max_subscriptions: int, excluding: bool
    ) -> None:
        self.max_control_line = max_control_line
        self.max_payload = max_payload
        self.max_subscriptions = max_subscriptions
        self.excluding = excluding
        self.wishes: list[Wish] = []
        self.number = 0
        self.exact = True  # false once what happens next hangs on a group's free choice
        self.copies = 0  # messages that must have been sent, to whomever
        self.perhaps = 0  # and that may have been
        self.cut: set[int] = set()  # links that the plane cut off while this chunk was served

    def feed(
        self, link: ModelLink, chunk: bytes, reached: int, interrupted: bool, cut: list[ModelLink]
    ) -> None:
        """Hear a chunk. Up to `reached` the plane has read, if it stopped before the end."""
        self.cut = {id(other) for other in cut}
        stopped = interrupted or id(link) in self.cut
        link.buffer += chunk
        at = 0
        while not link.closed:
            limits = Limits(self.max_control_line, self.max_payload, link.has("headers"))
            found = step(link.buffer, at, limits) if at < len(link.buffer) else None
            if isinstance(found, Fault) and not stopped:
                self._fault(link, found)
            if not isinstance(found, Op) or (stopped and link.consumed + found.end - at > reached):
                break
            link.consumed += found.end - at
            at = found.end
            self._serve(link, found)
        link.buffer = link.buffer[at:]
        if link.closed:
            self.drop(link)
        for other in cut:
            other.cut = True
            self.drop(other)
        self.cut = set()

    def drop(self, link: ModelLink) -> None:
        """The connection has gone."""
        link.closed = True
        link.wishes.clear()
        self.wishes = [wish for wish in self.wishes if wish.link is not link]

    def _fault(self, link: ModelLink, fault: Fault) -> None:
        unended = fault.name == "PayloadUnended"
        if unended and link.has("pedantic") and not is_literal(fault.subject):
            link.tell(INVALID_PUBLISH)
        if fault.name in SAID:
            link.refuse(SAID[fault.name])
        link.closed = True

    def _serve(self, link: ModelLink, op: Op) -> None:
        if op.verb in ("PUB", "HPUB"):
            self._publish(link, op)
        elif op.verb == "SUB":
            self._subscribe(link, op)
        elif op.verb == "UNSUB":
            self._unsubscribe(link, op)
        elif op.verb == "PING":
            link.tell(b"PONG\r\n")
            if link.options.get("protocol") == 1 and not link.greeted:
                link.greeted = True
                link.tell(INFO)
        elif op.verb == "CONNECT":
            self._connect(link, op.subject)
        elif op.verb == "INFO" and self._object(op.subject) is None:
            link.closed = True

    # CONNECT

    def _object(self, text: bytes) -> dict[str, Any] | None:
        def refuse(_: str) -> None:
            raise ValueError

        try:
            value = json.loads(text.decode(errors="replace"), parse_constant=refuse)
        except (ValueError, RecursionError):
            return None
        return {} if value is None else value if isinstance(value, dict) else None

    def _connect(self, link: ModelLink, text: bytes) -> None:
        given = self._object(text)
        if given is None:
            link.closed = True
            return
        chosen = dict(link.options)
        for key, value in given.items():
            name = key.lower()
            known = name in (*BOOLS, *STRINGS, "protocol", "frame")
            if value is None or not known:
                continue
            kind = bool if name in BOOLS else int if name == "protocol" else str
            if type(value) is not kind or (
                name == "protocol" and not -(2**63) <= int(value) < 2**63
            ):
                link.closed = True
                return
            chosen[name] = value
        problem = self._problem(chosen)
        if problem:
            link.refuse(problem)
            link.closed = True
            return
        link.options = chosen
        link.oblige()

    def _problem(self, chosen: dict[str, Any]) -> bytes:
        if chosen.get("protocol", 0) not in (0, 1):
            return b"invalid client protocol"
        if chosen.get("account") or chosen.get("new_account"):
            return b"Authorization Violation"
        if chosen.get("no_responders") and not chosen.get("headers"):
            return b"no responders requires headers support"
        if chosen.get("frame", NONE) not in (NETSTRING, HEADER, NONE):
            return b"invalid frame option: use netstring, header or none"
        return b""

    # SUB and UNSUB

    def _subscribe(self, link: ModelLink, op: Op) -> None:
        if self.max_subscriptions and len(link.wishes) >= self.max_subscriptions:
            return link.refuse(b"maximum subscriptions exceeded")
        if op.subject.startswith(b"$SEQ."):
            group = b" using queue %b" % quoted(op.reply) if op.reply else b""
            words = b"Permissions Violation for Subscription to %b%b"
            return link.refuse(words % (quoted(op.subject), group))
        if op.digits not in link.wishes:
            if not is_pattern(op.subject):
                return link.refuse(b"Invalid Subject")
            wish = Wish(link, op.subject, op.digits, op.reply)
            link.wishes[op.digits] = wish
            self.wishes.append(wish)
        return link.oblige()

    def _unsubscribe(self, link: ModelLink, op: Op) -> None:
        wish = link.wishes.get(op.subject)
        limit = int(op.digits) if op.digits.isdigit() and len(op.digits) < 10 else 0
        if wish is not None:
            if wish.queue and limit:
                self.exact = False
            if limit > wish.delivered:
                wish.limit = limit
            else:
                self._end(wish)
        link.oblige()

    def _end(self, wish: Wish) -> None:
        del wish.link.wishes[wish.sid]
        self.wishes.remove(wish)

    # PUB and HPUB

    def _publish(self, link: ModelLink, op: Op) -> None:
        link.in_msgs += 1
        link.in_bytes += len(op.headers) + len(op.payload)
        if link.has("pedantic") and not is_literal(op.subject):
            link.tell(INVALID_PUBLISH)
        asking = op.subject.startswith(b"$SEQ.PUB.")
        if self._reserved(op.subject) and not asking:
            return link.refuse(b"Permissions Violation for Publish to %b" % quoted(op.subject))
        if op.reply.startswith(b"_R_.") or begins(op.reply, b"_GR_.", b"$GR.", b"$JS.ACK."):
            words = b"Permissions Violation for Publish with Reply of %b"
            return link.refuse(words % quoted(op.reply))
        if asking:
            return self._ask(link, op)
        link.oblige()
        taken = self._send(link, op, op.subject, op.reply, not self._excluded(op.subject))
        if op.reply and link.has("no_responders") and taken != "surely":
            self._nobody(link, op, taken == "never")
        return None

    def _reserved(self, subject: bytes) -> bool:
        return subject.startswith((b"$SEQ.", b"$NRG.")) or begins(subject, b"_GR_.", b"$GR.")

    def _excluded(self, subject: bytes) -> bool:
        # `x..a` too, though nobody can subscribe to it: nothing but its number hangs on that.
        return self.excluding and begins(subject, EXCLUDED_TOKEN + b".")

    def _send(self, link: ModelLink, op: Op, subject: bytes, reply: bytes, numbered: bool) -> str:
        """To everybody who wants it; whether anybody did take it."""
        if numbered:
            self.number += 1
        number = self.number if numbered else 0
        message = Message(
            number, subject, reply, op.digits, op.header_digits, op.headers, op.payload
        )
        deaf = None if link.has("echo") else link
        takers = [
            wish
            for wish in self.wishes
            if not wish.link.closed
            and wish.link is not deaf
            and tokens_match(wish.subject, subject)
        ]
        self.copies += len({wish.queue for wish in takers if wish.queue})
        self._note(takers, [self._copy(message, wish) for wish in takers])
        if any(id(wish.link) not in self.cut for wish in takers):
            return "surely"
        return "perhaps" if takers else "never"

    def _copy(self, message: Message, wish: Wish) -> bytes:
        return delivery(message, wish.sid, wish.link.chosen_frame(), wish.link.has("headers"))

    def _note(self, takers: list[Wish], copies: list[bytes]) -> None:
        """Note one event for every link that has a taker, and end what has had enough."""
        events: dict[int, Event] = {}
        for wish, text in zip(takers, copies, strict=True):
            event = events.get(id(wish.link))
            if event is None:
                event = events[id(wish.link)] = Event()
                wish.link.events.append(event)
            if wish.queue:
                event.may.setdefault(wish.queue, []).append(text)
                continue
            event.must.append(text)
            self.copies += 1
            wish.delivered += 1
            if wish.delivered == wish.limit:
                self._end(wish)

    def _nobody(self, link: ModelLink, op: Op, surely: bool) -> None:
        status = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % op.subject
        texts = [
            b"HMSG %b %b %d %d\r\n%b\r\n" % (op.reply, wish.sid, len(status), len(status), status)
            for wish in link.wishes.values()
            if not wish.queue and tokens_match(wish.subject, op.reply)
        ]
        if texts:
            link.events.append(Event(may={b"": texts}, sure=surely))
            self.copies += 1

    # `$SEQ.PUB.<subject>`

    def _ask(self, link: ModelLink, op: Op) -> None:
        subject = op.subject[len(b"$SEQ.PUB.") :]
        problem = b""
        if not is_literal(subject):
            problem = b"Invalid Publish Subject"
        elif self._reserved(subject):
            problem = b"Permissions Violation"
        elif self._excluded(subject):
            problem = b"Subject Is Excluded From Sequencing"
        if problem:
            if op.reply and link.has("headers"):
                return self._answer(op.reply, b"", b"NATS/1.0 400 %b\r\n\r\n" % problem)
            return link.refuse(b"Permissions Violation for Publish to %b" % quoted(op.subject))
        link.oblige()
        if op.payload:
            self._send(link, op, subject, b"", True)
        if op.reply:
            self._answer(op.reply, netstring(b"%d" % self.number), b"")
        return None

    def _answer(self, reply: bytes, payload: bytes, headers: bytes) -> None:
        takers = [
            wish
            for wish in self.wishes
            if not wish.link.closed and tokens_match(wish.subject, reply)
        ]
        self.perhaps += len({wish.queue for wish in takers if wish.queue})
        copies = []
        for wish in takers:
            head = headers if wish.link.has("headers") else b""
            sizes = b"%d %d" % (len(head), len(head) + len(payload))
            verb = b"HMSG" if head else b"MSG"
            words = (verb, reply, wish.sid, sizes if head else b"%d" % len(payload))
            copies.append(b" ".join(words) + b"\r\n" + head + payload + b"\r\n")
        self._note(takers, copies)
