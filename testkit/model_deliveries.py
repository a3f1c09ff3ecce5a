"""The copies of a message: to all that match, to one of each queue group, and to replays.

The choice within a group is free. If the world can see it, `choose` says which copy was sent;
otherwise each of them may have been, and what depends on the choice (a member's limit) is not
checked.
"""

from collections.abc import Callable

from testkit.model_connection import Copy, ModelSubscription
from testkit.model_frame import Sequenced, delivery
from testkit.model_kept import Entry, Kept
from testkit.model_stream import Event
from testkit.model_subject import tokens_match


class Deliveries:
    """All subscriptions, and what each connection must receive of the messages for them."""

    def __init__(self) -> None:
        self.subs: list[ModelSubscription] = []
        self.number = 0
        self.choose: Callable[[list[Copy]], Copy] | None = None
        self.exact = True  # False once the following events depend on a group's free choice
        self.copies = 0  # messages that must have been sent, to anyone
        self.perhaps = 0  # messages that may have been sent
        self.kept = Kept(1)
        self.asked = 0  # requests for the past so far
        # Subscriptions of lagging connections: they end after the replay.
        self.ending: list[ModelSubscription] = []

    def copy_of(self, message: Sequenced, sub: ModelSubscription) -> Copy:
        takes_headers = sub.connection.has("headers")
        text = delivery(message, sub.sid, sub.connection.chosen_frame(), takes_headers)
        return Copy(sub, text, len(message.payload) + takes_headers * len(message.headers))

    def note(self, copies: list[Copy], stream: str) -> None:
        """Record one event for every receiving connection, and end subscriptions that reach their
        limit.
        """
        events: dict[int, Event] = {}
        for sub, text, size in self._chosen(copies) if self.choose else copies:
            event = events.get(id(sub.connection))
            if event is None:
                event = events[id(sub.connection)] = Event(stream=stream)
                sub.connection.events.append(event)
            if sub.queue and self.choose is None:
                event.may.setdefault(sub.queue, []).append(text)
                continue
            event.must.append(text)
            self.copies += 1
            sub.delivered += 1
            sub.connection.out_bytes += size
            if sub.delivered == sub.limit:
                self.end(sub)

    def _chosen(self, copies: list[Copy]) -> list[Copy]:
        """The copies that were sent: for each group, the one that its member received."""
        assert self.choose is not None
        groups: dict[bytes, list[Copy]] = {}
        for copy in copies:
            groups.setdefault(copy.sub.queue, []).append(copy)
        plain = groups.pop(b"", [])
        return plain + [self.choose(members) for members in groups.values()]

    def add_perhaps(self, copies: list[Copy]) -> None:
        """Add messages that reach a subscription with a past only if it is live by now."""
        for sub, text, _ in copies:
            self.asked += 1
            sub.connection.events.append(Event(may={sub.sid: [text]}, stream=self.asked))
            self.perhaps += 1

    def overtake(self, subject: bytes) -> None:
        """Expect unnumbered messages on subscriptions that are about to end: they may get them."""
        for sub in self.ending:
            if tokens_match(sub.subject, subject):
                sub.connection.loose = True

    def end(self, sub: ModelSubscription) -> None:
        del sub.connection.subs[sub.sid]
        self.subs.remove(sub)

    # The past

    def say(self, sub: ModelSubscription, subject: bytes) -> None:
        assert sub.past is not None
        text = b"MSG %b %b 0\r\n\r\n" % (subject, sub.sid)
        sub.connection.events.append(Event([text], stream=sub.past.stream, counted=False))
        self.copies += 1

    def play(self, sub: ModelSubscription, entry: Entry) -> None:
        """Deliver one message of the past to its subscription."""
        connection = sub.connection
        if not tokens_match(sub.subject, entry.message.subject):
            return
        if entry.origin != connection.origin or connection.has("echo"):
            assert sub.past is not None
            text = self.copy_of(entry.message, sub).text
            connection.events.append(Event([text], stream=sub.past.stream))
            self.copies += 1

    def reach(self, sub: ModelSubscription) -> None:
        """End a subscription whose last wanted number has been assigned."""
        past = sub.past
        if past is not None and 0 < past.until <= max(self.number, self.kept.first - 1):
            self.say(sub, b"$SEQ.END.%d" % past.until)
            sub.connection.spent.add(sub.sid)
            self.end(sub)
