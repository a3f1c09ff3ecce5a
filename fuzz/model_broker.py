"""The broker's rules without its data plane: every subscriber told one by one, all found naively.

It hears the same bytes as the real one, one chunk at a time and after it, and notes for each
link the events that its client must see. Where the real one is free, the model is told or
stays open: a group's member is any of them; which link was cut off as too slow, and how far
the plane read a link that cut itself off, it learns from the plane. So it does of who lags, and
of when a write to the journal failed.
"""

import contextlib
from typing import Any

from broker.clients.connect import read_object, read_options
from broker.replay import requests
from fuzz.model_frame import HEADER, NETSTRING, NONE, Message, delivery, netstring
from fuzz.model_kept import PROBLEM, Entry, Kept, Past
from fuzz.model_link import ModelLink, Wish
from fuzz.model_stream import Event
from fuzz.model_subject import begins, is_literal, is_pattern, tokens_match
from fuzz.model_wire import Fault, Limits, Op, step
from parser.errors import WireError, quoted

INFO = b"INFO {} \r\n"  # what the fake session greets with; the real one has fields in it
LASTS_MAX = 4  # `$SEQ.LAST` at a time; how long each takes is not known here
EXCLUDED_TOKEN = b"x"  # `x.>` is excluded from the order, where anything is
SAID = {
    "UnknownOperation": b"Unknown Protocol Operation",
    "PayloadUnended": b"Unknown Protocol Operation",
    "ControlLineTooLong": b"maximum control line exceeded",
    "PayloadTooLarge": b"Maximum Payload Violation",
}
INVALID_PUBLISH = b"-ERR 'Invalid Publish Subject'\r\n"


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
        self.kept = Kept(1)
        self.refused = False  # the publisher at hand was told so
        self.asked = 0  # wishes for the past so far
        self.ending: list[Wish] = []  # of links that lag: they end when the past was played
        self.told_number = 0  # of the message at hand, or the one that it repeats

    def feed(
        self, link: ModelLink, chunk: bytes, reached: int, interrupted: bool, cut: list[ModelLink]
    ) -> None:
        """Hear a chunk. Up to `reached` the plane has read, if it stopped before the end."""
        self.cut = {id(other) for other in cut}
        self.refused = False
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
            link.tell(b"PONG\r\n", "turn")
            if link.options.get("protocol") == 1 and not link.greeted:
                link.greeted = True
                link.tell(INFO, "turn")
        elif op.verb == "CONNECT":
            self._connect(link, op.subject)
        elif op.verb == "INFO":
            with contextlib.suppress(WireError):
                read_object(op.subject)
                return
            link.closed = True

    # CONNECT

    def _connect(self, link: ModelLink, text: bytes) -> None:
        link.loose = link.loose or link.lagging or link.asked
        try:
            chosen = link.options | read_options(text)
        except WireError:
            link.closed = True
            return
        problem = self._problem(chosen)
        if problem:
            link.refuse(problem)
            link.closed = True
            return
        if link.introduced:
            for wish in list(link.wishes.values()):
                self._drop_wish(link, wish)
        link.introduced = True
        link.options = chosen
        link.oblige()

    def _drop_wish(self, link: ModelLink, wish: Wish) -> None:
        if wish.past is not None:
            link.loose = True
        if link.lagging:
            link.spent.add(wish.sid)
            self.ending.append(wish)
        self._end(wish)

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
        if op.digits in link.spent or (self.max_subscriptions and (link.asked or link.lagged)):
            self.exact = False
        if op.subject.startswith(b"$SEQ."):
            problem = self._ask_past(link, op)
            if problem is None:
                return link.oblige()
            if problem:
                words = b"Permissions Violation for Subscription to %b: %b"
                return link.refuse(words % (quoted(op.subject), problem))
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
        link.loose = link.loose or op.subject in link.spent
        if wish is not None:
            if wish.queue and limit:
                self.exact = False
            if wish.past is not None or (limit and link.lagging):
                link.loose = True
            if link.lagging:
                link.spent.add(wish.sid)
                self.ending.append(wish)
            if limit > wish.delivered:
                wish.limit = limit
            else:
                self._end(wish)
        link.oblige()

    def _ask_past(self, link: ModelLink, op: Op) -> bytes | None:
        """A wish for the past: None if it is granted, else what is wrong, empty for no wish."""
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
            link.lasts += 1
            link.loose = link.loose or link.lasts > LASTS_MAX
        if op.digits in link.wishes:
            return None
        link.asked = True
        link.loose = link.loose or self.kept.stuck_at is not None
        self.asked += 1
        past = Past(self.asked)
        wish = Wish(link, wanted.filter, op.digits, b"", past=past)
        link.wishes[op.digits] = wish
        self.wishes.append(wish)
        self._replay(wish, past, wanted)
        return None

    def _replay(self, wish: Wish, past: Past, wanted: requests.Past) -> None:
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
            self._say(wish, lost)
        if isinstance(wanted, requests.Last):
            last = {e.message.subject: e for e in entries}
            chosen = sorted(last.values(), key=lambda entry: entry.message.number)
        else:
            chosen = [e for e in entries if past.takes(e.message.number, e.time)]
        for entry in chosen:
            self._play(wish, entry)
        self._reach(wish)

    def _say(self, wish: Wish, subject: bytes) -> None:
        assert wish.past is not None
        text = b"MSG %b %b 0\r\n\r\n" % (subject, wish.sid)
        wish.link.events.append(Event([text], stream=wish.past.stream, counted=False))
        self.copies += 1

    def _play(self, wish: Wish, entry: Entry) -> None:
        """One message to a wish that began with the past."""
        link = wish.link
        if not tokens_match(wish.subject, entry.message.subject):
            return
        if entry.origin != link.origin or link.has("echo"):
            assert wish.past is not None
            text = self._copy(entry.message, wish)
            link.events.append(Event([text], stream=wish.past.stream))
            self.copies += 1

    def _reach(self, wish: Wish) -> None:
        """End one that wants nothing above a number which has been given."""
        past = wish.past
        if past is not None and 0 < past.until <= max(self.number, self.kept.first - 1):
            self._say(wish, b"$SEQ.END.%d" % past.until)
            wish.link.spent.add(wish.sid)
            self._end(wish)

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
        own = asking and op.reply.startswith(b"$SEQ.")
        if own or op.reply.startswith(b"_R_.") or begins(op.reply, b"_GR_.", b"$GR.", b"$JS.ACK."):
            words = b"Permissions Violation for Publish with Reply of %b"
            return link.refuse(words % quoted(op.reply))
        if asking:
            return self._ask(link, op)
        place = len(link.events)
        numbered = tokens_match(b">", op.subject) and not self._excluded(op.subject)
        taken = self._send(link, op, op.subject, op.reply, numbered)
        if taken == "refused":
            return self._refuse(link, op.subject)
        if link.has("verbose"):
            link.events.insert(place, Event([b"+OK\r\n"]))
        if op.reply and link.has("no_responders") and taken not in ("surely", "known"):
            self._nobody(link, op, taken == "never")
        return None

    def _reserved(self, subject: bytes) -> bool:
        return subject.startswith((b"$SEQ.", b"$NRG.")) or begins(subject, b"_GR_.", b"$GR.")

    def _excluded(self, subject: bytes) -> bool:
        return self.excluding and tokens_match(EXCLUDED_TOKEN + b".>", subject)

    def _send(self, link: ModelLink, op: Op, subject: bytes, reply: bytes, numbered: bool) -> str:
        """To everybody who wants it; whether anybody did take it."""
        number = self.number + 1 if numbered else 0
        message = Message(
            number, subject, reply, op.digits, op.header_digits, op.headers, op.payload
        )
        if numbered:
            problem = self._take(link, message)
            if problem:
                return problem
        deaf = None if link.has("echo") else link
        takers = [
            wish
            for wish in self.wishes
            if not wish.link.closed
            and wish.link is not deaf
            and tokens_match(wish.subject, subject)
        ]
        past = [wish for wish in takers if wish.past is not None]
        takers = [wish for wish in takers if wish.past is None]
        self.copies += len({wish.queue for wish in takers if wish.queue})
        copies = [self._copy(message, wish) for wish in takers]
        self._note(takers, copies, "live" if number else "told")
        if not numbered:
            self._overtake(subject)
            self._perhaps(past, [self._copy(message, wish) for wish in past])
        if any(id(wish.link) not in self.cut for wish in takers):
            return "surely"
        return "perhaps" if takers or past else "never"

    def _take(self, link: ModelLink, message: Message) -> str:
        """Number and keep a message; or why not."""
        message_id = self.kept.id_of(message.headers)
        if message_id in self.kept.ids:
            self.told_number = self.kept.ids[message_id]
            return "known"
        if self.kept.refuses(message):
            return "refused"
        self.told_number = self.number = message.number
        if message_id:
            self.kept.ids[message_id] = message.number
        entry = Entry(message, self.kept.now, link.origin)
        if self.kept.replays:
            self.kept.entries.append(entry)
        for wish in [wish for wish in self.wishes if wish.past is not None]:
            assert wish.past is not None
            if wish.past.takes(message.number, entry.time):
                self._play(wish, entry)
            self._reach(wish)
        return ""

    def _refuse(self, link: ModelLink, subject: bytes, always: bool = False) -> None:
        """There is no room: a verbose client is told each time, others once a read event."""
        if always or link.has("verbose") or not self.refused:
            self.refused = self.refused or not always
            words = b"Permissions Violation for Publish to %b: the journal is full (%b)"
            link.refuse(words % (quoted(subject), PROBLEM))

    def _overtake(self, subject: bytes) -> None:
        """What has no number still reaches a subscription of which the end waits."""
        for wish in self.ending:
            if tokens_match(wish.subject, subject):
                wish.link.loose = True

    def _perhaps(self, takers: list[Wish], copies: list[bytes]) -> None:
        """What reaches one that began with the past only if it is live by now."""
        for wish, text in zip(takers, copies, strict=True):
            self.asked += 1
            wish.link.events.append(Event(may={wish.sid: [text]}, stream=self.asked))
            self.perhaps += 1

    def _copy(self, message: Message, wish: Wish) -> bytes:
        return delivery(message, wish.sid, wish.link.chosen_frame(), wish.link.has("headers"))

    def _note(self, takers: list[Wish], copies: list[bytes], stream: str) -> None:
        """Note one event for every link that has a taker, and end what has had enough."""
        events: dict[int, Event] = {}
        for wish, text in zip(takers, copies, strict=True):
            event = events.get(id(wish.link))
            if event is None:
                event = events[id(wish.link)] = Event(stream=stream)
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
            only_past = all(wish.past is not None for wish in link.wishes.values())
            lagging = any(wish.link.lagging for wish in self.wishes)
            surely = surely and not only_past and not lagging
            link.events.append(Event(may={b"": texts}, sure=surely, counted=False))
            self.copies += surely
            self.perhaps += not surely

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
                return self._answer(link, op.reply, b"", b"NATS/1.0 400 %b\r\n\r\n" % problem)
            return link.refuse(b"Permissions Violation for Publish to %b" % quoted(op.subject))
        self.told_number = self.number
        if not op.payload:
            link.oblige()
        else:
            place = len(link.events)
            if self._send(link, op, subject, b"", True) == "refused":
                return self._no_room(link, op)
            if link.has("verbose"):
                link.events.insert(place, Event([b"+OK\r\n"]))
        if op.reply:
            self._answer(link, op.reply, netstring(b"%d" % self.told_number), b"")
        return None

    def _no_room(self, link: ModelLink, op: Op) -> None:
        if op.reply and link.has("headers"):
            self._answer(link, op.reply, b"", b"NATS/1.0 507 Journal Full\r\n\r\n")
        else:
            self._refuse(link, op.subject, always=True)

    def _answer(self, link: ModelLink, reply: bytes, payload: bytes, headers: bytes) -> None:
        takers = [wish for wish in link.wishes.values() if tokens_match(wish.subject, reply)]
        self.perhaps += len({wish.queue for wish in takers if wish.queue})
        self._overtake(reply)
        copies = []
        for wish in takers:
            head = headers if wish.link.has("headers") else b""
            sizes = b"%d %d" % (len(head), len(head) + len(payload))
            verb = b"HMSG" if head else b"MSG"
            words = (verb, reply, wish.sid, sizes if head else b"%d" % len(payload))
            copies.append(b" ".join(words) + b"\r\n" + head + payload + b"\r\n")
        live = [pair for pair in zip(takers, copies, strict=True) if pair[0].past is None]
        past = [pair for pair in zip(takers, copies, strict=True) if pair[0].past is not None]
        self._note([wish for wish, _ in live], [text for _, text in live], "told")
        self._perhaps([wish for wish, _ in past], [text for _, text in past])
