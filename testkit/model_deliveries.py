"""Which copies go where: to all that match, to one of each queue group, and to replays.

The choice within a group is free. If the world can see it, `choose` says which copy was sent;
otherwise each of them may have been, and what depends on the choice (a member's limit) is not
checked.
"""

from collections.abc import Callable

from testkit.model_connection import Copy, Wish
from testkit.model_frame import Sequenced, delivery
from testkit.model_kept import Entry, Kept
from testkit.model_stream import Event
from testkit.model_subject import tokens_match


class Deliveries:
    """All subscriptions, and what each connection must receive of the messages for them."""

    def __init__(self) -> None:
        self.wishes: list[Wish] = []
        self.number = 0
        self.choose: Callable[[list[Copy]], Copy] | None = None
        self.exact = True  # False once the following events depend on a group's free choice
        self.copies = 0  # messages that must have been sent, to anyone
        self.perhaps = 0  # messages that may have been sent
        self.kept = Kept(1)
        self.asked = 0  # requests for the past so far
        self.ending: list[Wish] = []  # of lagging connections: they end after the replay

    def copy_of(self, message: Sequenced, wish: Wish) -> Copy:
        takes_headers = wish.connection.has("headers")
        text = delivery(message, wish.sid, wish.connection.chosen_frame(), takes_headers)
        return Copy(wish, text, len(message.payload) + takes_headers * len(message.headers))

    def note(self, copies: list[Copy], stream: str) -> None:
        """Record one event for every receiving connection, and end subscriptions that reach their
        limit.
        """
        events: dict[int, Event] = {}
        for wish, text, size in self._chosen(copies) if self.choose else copies:
            event = events.get(id(wish.connection))
            if event is None:
                event = events[id(wish.connection)] = Event(stream=stream)
                wish.connection.events.append(event)
            if wish.queue and self.choose is None:
                event.may.setdefault(wish.queue, []).append(text)
                continue
            event.must.append(text)
            self.copies += 1
            wish.delivered += 1
            wish.connection.out_bytes += size
            if wish.delivered == wish.limit:
                self.end(wish)

    def _chosen(self, copies: list[Copy]) -> list[Copy]:
        """The copies that were sent: for each group, the one that its member received."""
        assert self.choose is not None
        groups: dict[bytes, list[Copy]] = {}
        for copy in copies:
            groups.setdefault(copy.wish.queue, []).append(copy)
        plain = groups.pop(b"", [])
        return plain + [self.choose(members) for members in groups.values()]

    def add_perhaps(self, copies: list[Copy]) -> None:
        """Messages that reach a subscription with a past only if it is live by now."""
        for wish, text, _ in copies:
            self.asked += 1
            wish.connection.events.append(Event(may={wish.sid: [text]}, stream=self.asked))
            self.perhaps += 1

    def overtake(self, subject: bytes) -> None:
        """Messages without a number still reach a subscription that is about to end."""
        for wish in self.ending:
            if tokens_match(wish.subject, subject):
                wish.connection.loose = True

    def end(self, wish: Wish) -> None:
        del wish.connection.wishes[wish.sid]
        self.wishes.remove(wish)

    # The past

    def say(self, wish: Wish, subject: bytes) -> None:
        assert wish.past is not None
        text = b"MSG %b %b 0\r\n\r\n" % (subject, wish.sid)
        wish.connection.events.append(Event([text], stream=wish.past.stream, counted=False))
        self.copies += 1

    def play(self, wish: Wish, entry: Entry) -> None:
        """Deliver one message of the past to its subscription."""
        connection = wish.connection
        if not tokens_match(wish.subject, entry.message.subject):
            return
        if entry.origin != connection.origin or connection.has("echo"):
            assert wish.past is not None
            text = self.copy_of(entry.message, wish).text
            connection.events.append(Event([text], stream=wish.past.stream))
            self.copies += 1

    def reach(self, wish: Wish) -> None:
        """End a subscription whose last wanted number has been assigned."""
        past = wish.past
        if past is not None and 0 < past.until <= max(self.number, self.kept.first - 1):
            self.say(wish, b"$SEQ.END.%d" % past.until)
            wish.connection.spent.add(wish.sid)
            self.end(wish)
