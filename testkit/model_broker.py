"""The broker's rules without its data plane: every subscriber served one by one, naively.

It is fed the same bytes as the real one, one chunk at a time and after it. It records for each
connection the events that its client must see. Where the real broker has a choice, the model asks
the plane or stays open. Any member of a queue group may get a message. From the plane it learns
which clients were disconnected as too slow, how far a disconnected one was read, which ones lag,
and when a write to the journal failed.
"""

import contextlib
from typing import Any

from broker.replay import requests
from broker.wires.connect import read_object, read_options
from parser.errors import WireError, quoted
from testkit.model_connection import Copy, ModelConnection, ModelSubscription
from testkit.model_deliveries import Deliveries
from testkit.model_frame import HEADER, NETSTRING, NONE, STAMP, Sequenced, netstring
from testkit.model_kept import PROBLEM, Entry, Past
from testkit.model_stream import Event
from testkit.model_subject import begins, is_literal, is_pattern, tokens_match
from testkit.model_wire import Fault, Limits, Op, step

INFO = b"INFO {} \r\n"  # the fake session's greeting; the real one has fields
LASTS_MAX = 4  # concurrent `$SEQ.LAST`; how long each takes is not known here
EXCLUDED_TOKEN = b"x"  # `x.>` is excluded from the order, if anything is
SAID = {
    "UnknownOperation": b"Unknown Protocol Operation",
    "PayloadUnended": b"Unknown Protocol Operation",
    "ControlLineTooLong": b"maximum control line exceeded",
    "PayloadTooLarge": b"Maximum Payload Violation",
}
INVALID_PUBLISH = b"-ERR 'Invalid Publish Subject'\r\n"


class Model(Deliveries):
    """All connections and their subscriptions, and the last number."""

    def __init__(
        self, max_control_line: int, max_payload: int, max_subscriptions: int, excluding: bool
    ) -> None:
        super().__init__()
        self.max_control_line = max_control_line
        self.max_payload = max_payload
        self.max_subscriptions = max_subscriptions
        self.excluding = excluding
        # connections that the plane disconnected while this chunk was served
        self.cut: set[int] = set()
        self.refused = False  # whether the current publisher was sent the error
        self.told_number = 0  # of the current message, or of the one that it repeats

    def feed(
        self,
        connection: ModelConnection,
        chunk: bytes,
        reached: int,
        interrupted: bool,
        cut: list[ModelConnection],
    ) -> None:
        """Process a chunk. `reached`: how far the plane has read, if it stopped before the end."""
        self.cut = {id(other) for other in cut}
        self.refused = False
        stopped = interrupted or id(connection) in self.cut
        connection.buffer += chunk
        at = 0
        while not connection.closed:
            limits = Limits(self.max_control_line, self.max_payload, connection.has("headers"))
            found = step(connection.buffer, at, limits) if at < len(connection.buffer) else None
            if isinstance(found, Fault) and not stopped:
                self._fault(connection, found)
            if not isinstance(found, Op) or (
                stopped and connection.consumed + found.end - at > reached
            ):
                break
            connection.consumed += found.end - at
            at = found.end
            self._serve(connection, found)
        connection.buffer = connection.buffer[at:]
        if connection.closed:
            self.drop(connection)
        for other in cut:
            other.cut = True
            self.drop(other)
        self.cut = set()

    def drop(self, connection: ModelConnection) -> None:
        """Close a connection in the model, and end its subscriptions."""
        connection.closed = True
        connection.subs.clear()
        self.subs = [sub for sub in self.subs if sub.connection is not connection]

    def _fault(self, connection: ModelConnection, fault: Fault) -> None:
        unended = fault.name == "PayloadUnended"
        if unended and connection.has("pedantic") and not is_literal(fault.subject):
            connection.tell(INVALID_PUBLISH)
        if fault.name in SAID:
            connection.refuse(SAID[fault.name])
        connection.closed = True

    def _serve(self, connection: ModelConnection, op: Op) -> None:
        if op.verb in ("PUB", "HPUB"):
            self._publish(connection, op)
        elif op.verb == "SUB":
            self._subscribe(connection, op)
        elif op.verb == "UNSUB":
            self._unsubscribe(connection, op)
        elif op.verb == "PING":
            connection.tell(b"PONG\r\n", "turn")
            if connection.options.get("protocol") == 1 and not connection.greeted:
                connection.greeted = True
                connection.tell(INFO, "turn")
        elif op.verb == "CONNECT":
            self._connect(connection, op.subject)
        elif op.verb == "INFO":
            with contextlib.suppress(WireError):
                read_object(op.subject)
                return
            connection.closed = True

    # CONNECT

    def _connect(self, connection: ModelConnection, text: bytes) -> None:
        connection.loose = connection.loose or connection.lagging or connection.asked
        try:
            chosen = connection.options | read_options(text)
        except WireError:
            connection.closed = True
            return
        problem = self._problem(chosen)
        if problem:
            connection.refuse(problem)
            connection.closed = True
            return
        if connection.introduced:
            for sub in list(connection.subs.values()):
                self._drop_sub(connection, sub)
        connection.introduced = True
        connection.options = chosen
        connection.oblige()

    def _drop_sub(self, connection: ModelConnection, sub: ModelSubscription) -> None:
        if sub.past is not None:
            connection.loose = True
        if connection.lagging:
            connection.spent.add(sub.sid)
            self.ending.append(sub)
        self.end(sub)

    def _problem(self, chosen: dict[str, Any]) -> bytes:
        if chosen.get("protocol", 0) not in (0, 1):
            return b"invalid client protocol"
        if chosen.get("account") or chosen.get("new_account"):
            return b"Authorization Violation"
        if chosen.get("no_responders") and not chosen.get("headers"):
            return b"no responders requires headers support"
        if chosen.get("frame", NONE) not in (NETSTRING, HEADER, STAMP, NONE):
            return b"invalid frame option: use netstring, header, stamp or none"
        return b""

    # SUB and UNSUB

    def _subscribe(self, connection: ModelConnection, op: Op) -> None:
        if self.max_subscriptions and len(connection.subs) >= self.max_subscriptions:
            return connection.refuse(b"maximum subscriptions exceeded")
        if op.digits in connection.spent or (
            self.max_subscriptions and (connection.asked or connection.lagged)
        ):
            self.exact = False
        if op.subject.startswith(b"$SEQ."):
            problem = self._ask_past(connection, op)
            if problem is None:
                return connection.oblige()
            if problem:
                words = b"Permissions Violation for Subscription to %b: %b"
                return connection.refuse(words % (quoted(op.subject), problem))
            group = b" using queue %b" % quoted(op.reply) if op.reply else b""
            words = b"Permissions Violation for Subscription to %b%b"
            return connection.refuse(words % (quoted(op.subject), group))
        if op.digits not in connection.subs:
            if not is_pattern(op.subject):
                return connection.refuse(b"Invalid Subject")
            sub = ModelSubscription(connection, op.subject, op.digits, op.reply)
            connection.subs[op.digits] = sub
            self.subs.append(sub)
        return connection.oblige()

    def _unsubscribe(self, connection: ModelConnection, op: Op) -> None:
        sub = connection.subs.get(op.subject)
        limit = int(op.digits) if op.digits.isdigit() and len(op.digits) < 10 else 0
        connection.loose = connection.loose or op.subject in connection.spent
        if sub is not None:
            if sub.queue and limit and self.choose is None:
                self.exact = False
            if sub.past is not None or (limit and connection.lagging):
                connection.loose = True
            if connection.lagging:
                connection.spent.add(sub.sid)
                self.ending.append(sub)
            if limit > sub.delivered:
                sub.limit = limit
            else:
                self.end(sub)
        connection.oblige()

    def _ask_past(self, connection: ModelConnection, op: Op) -> bytes | None:
        """Take a request for the past: None if granted, else the error, or empty for no request."""
        try:
            wanted = requests.parse(op.subject)
        except requests.BadRequest as error:
            return str(error).encode()
        if not isinstance(wanted, requests.PAST):
            return b""
        if op.reply:
            return b"a replay cannot be shared in a queue group"
        if not self.kept.replays:
            return b"this broker keeps no messages"
        if isinstance(wanted, requests.Last):
            connection.lasts += 1
            connection.loose = connection.loose or connection.lasts > LASTS_MAX
        if op.digits in connection.subs:
            return None
        connection.asked = True
        connection.loose = connection.loose or self.kept.stuck_at is not None
        self.asked += 1
        past = Past(self.asked)
        sub = ModelSubscription(connection, wanted.filter, op.digits, b"", past=past)
        connection.subs[op.digits] = sub
        self.subs.append(sub)
        self._replay(sub, past, wanted)
        return None

    def _replay(self, sub: ModelSubscription, past: Past, wanted: requests.Past) -> None:
        entries = self.kept.entries
        if isinstance(wanted, requests.From):
            past.first = wanted.number
        elif isinstance(wanted, requests.Range):
            past.first, past.until = wanted.first, wanted.last
        elif isinstance(wanted, requests.Since):
            past.since = wanted.ms * 1_000_000
        else:
            past.first = self.number + 1
        lost = self.kept.lost(past, wanted)
        if lost:
            self.say(sub, lost)
        if isinstance(wanted, requests.Last):
            last = {e.message.subject: e for e in entries}
            chosen = sorted(last.values(), key=lambda entry: entry.message.number)
        else:
            chosen = [e for e in entries if past.takes(e.message.number, e.time)]
        for entry in chosen:
            self.play(sub, entry)
        self.reach(sub)

    # PUB and HPUB

    def _publish(self, connection: ModelConnection, op: Op) -> None:
        connection.in_msgs += 1
        connection.in_bytes += len(op.headers) + len(op.payload)
        if connection.has("pedantic") and not is_literal(op.subject):
            connection.tell(INVALID_PUBLISH)
        asking = op.subject.startswith(b"$SEQ.PUB.")
        if self._reserved(op.subject) and not asking:
            return connection.refuse(
                b"Permissions Violation for Publish to %b" % quoted(op.subject)
            )
        own = asking and op.reply.startswith(b"$SEQ.")
        if own or op.reply.startswith(b"_R_.") or begins(op.reply, b"_GR_.", b"$GR.", b"$JS.ACK."):
            words = b"Permissions Violation for Publish with Reply of %b"
            return connection.refuse(words % quoted(op.reply))
        if asking:
            return self._ask(connection, op)
        place = len(connection.events)
        numbered = tokens_match(b">", op.subject) and not self._excluded(op.subject)
        taken = self._send(connection, op, op.subject, op.reply, numbered)
        if taken == "refused":
            return self._refuse(connection, op.subject)
        if connection.has("verbose"):
            connection.events.insert(place, Event([b"+OK\r\n"]))
        if op.reply and connection.has("no_responders") and taken not in ("surely", "known"):
            self._nobody(connection, op, taken == "never")
        return None

    def _reserved(self, subject: bytes) -> bool:
        return subject.startswith((b"$SEQ.", b"$NRG.")) or begins(subject, b"_GR_.", b"$GR.")

    def _excluded(self, subject: bytes) -> bool:
        return self.excluding and tokens_match(EXCLUDED_TOKEN + b".>", subject)

    def _send(
        self, connection: ModelConnection, op: Op, subject: bytes, reply: bytes, numbered: bool
    ) -> str:
        """Deliver to every match; return a problem, or if there is one: surely, perhaps, never."""
        number = self.number + 1 if numbered else 0
        message = Sequenced(
            *(number, subject, reply, op.digits, op.header_digits, op.headers, op.payload),
            time=self.kept.now,
        )
        if numbered:
            problem = self._take(connection, message)
            if problem:
                return problem
        deaf = None if connection.has("echo") else connection
        takers = [
            sub
            for sub in self.subs
            if not sub.connection.closed
            and sub.connection is not deaf
            and tokens_match(sub.subject, subject)
        ]
        past = [sub for sub in takers if sub.past is not None]
        takers = [sub for sub in takers if sub.past is None]
        if self.choose is None:
            self.copies += len({sub.queue for sub in takers if sub.queue})
        self.note([self.copy_of(message, sub) for sub in takers], "live" if number else "told")
        if not numbered:
            self.overtake(subject)
            self.add_perhaps([self.copy_of(message, sub) for sub in past])
        if any(id(sub.connection) not in self.cut for sub in takers):
            return "surely"
        return "perhaps" if takers or past else "never"

    def _take(self, connection: ModelConnection, message: Sequenced) -> str:
        """Number and keep a message; return "", or why not."""
        message_id = self.kept.id_of(message.headers)
        if message_id in self.kept.ids:
            self.told_number = self.kept.ids[message_id]
            return "known"
        if self.kept.refuses(message):
            return "refused"
        self.told_number = self.number = message.number
        if message_id:
            self.kept.ids[message_id] = message.number
        entry = Entry(message, self.kept.now, connection.origin)
        if self.kept.replays:
            self.kept.entries.append(entry)
        for sub in [sub for sub in self.subs if sub.past is not None]:
            assert sub.past is not None
            if sub.past.takes(message.number, entry.time):
                self.play(sub, entry)
            self.reach(sub)
        return ""

    def _refuse(self, connection: ModelConnection, subject: bytes, always: bool = False) -> None:
        """Refuse for lack of room: a verbose client gets each error, others one per read event."""
        if always or connection.has("verbose") or not self.refused:
            self.refused = self.refused or not always
            words = b"Permissions Violation for Publish to %b: the journal is full (%b)"
            connection.refuse(words % (quoted(subject), PROBLEM))

    def _nobody(self, connection: ModelConnection, op: Op, surely: bool) -> None:
        status = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % op.subject
        texts = [
            b"HMSG %b %b %d %d\r\n%b\r\n" % (op.reply, sub.sid, len(status), len(status), status)
            for sub in connection.subs.values()
            if not sub.queue and tokens_match(sub.subject, op.reply)
        ]
        if texts:
            only_past = all(sub.past is not None for sub in connection.subs.values())
            lagging = any(sub.connection.lagging for sub in self.subs)
            surely = surely and not only_past and not lagging
            connection.events.append(Event(may={b"": texts}, sure=surely, counted=False))
            self.copies += surely
            self.perhaps += not surely

    # `$SEQ.PUB.<subject>`

    def _ask(self, connection: ModelConnection, op: Op) -> None:
        subject = op.subject[len(b"$SEQ.PUB.") :]
        problem = b""
        if not is_literal(subject):
            problem = b"Invalid Publish Subject"
        elif self._reserved(subject):
            problem = b"Permissions Violation"
        elif self._excluded(subject):
            problem = b"Subject Is Excluded From Sequencing"
        if problem:
            if op.reply and connection.has("headers"):
                return self._answer(connection, op.reply, b"", b"NATS/1.0 400 %b\r\n\r\n" % problem)
            return connection.refuse(
                b"Permissions Violation for Publish to %b" % quoted(op.subject)
            )
        self.told_number = self.number
        if not (op.payload or op.headers):
            connection.oblige()
        else:
            place = len(connection.events)
            if self._send(connection, op, subject, b"", True) == "refused":
                return self._no_room(connection, op)
            if connection.has("verbose"):
                connection.events.insert(place, Event([b"+OK\r\n"]))
        if op.reply:
            self._answer(connection, op.reply, netstring(b"%d" % self.told_number), b"")
        return None

    def _no_room(self, connection: ModelConnection, op: Op) -> None:
        if op.reply and connection.has("headers"):
            self._answer(connection, op.reply, b"", b"NATS/1.0 507 Journal Full\r\n\r\n")
        else:
            self._refuse(connection, op.subject, always=True)

    def _answer(
        self, connection: ModelConnection, reply: bytes, payload: bytes, headers: bytes
    ) -> None:
        takers = [sub for sub in connection.subs.values() if tokens_match(sub.subject, reply)]
        if self.choose is None:
            self.perhaps += len({sub.queue for sub in takers if sub.queue})
        self.overtake(reply)
        copies = []
        for sub in takers:
            head = headers if sub.connection.has("headers") else b""
            sizes = b"%d %d" % (len(head), len(head) + len(payload))
            verb = b"HMSG" if head else b"MSG"
            words = (verb, reply, sub.sid, sizes if head else b"%d" % len(payload))
            text = b" ".join(words) + b"\r\n" + head + payload + b"\r\n"
            copies.append(Copy(sub, text, len(head) + len(payload)))
        self.note([copy for copy in copies if copy.sub.past is None], "told")
        self.add_perhaps([copy for copy in copies if copy.sub.past is not None])
