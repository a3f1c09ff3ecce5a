"""Takes plain acks as they are parsed: a search in the table of what is pending, and no more.

    PUB $JS.ACK.ORDERS.billing.1.88485.17.1795709001693184725.0 0
                |--- name ----| |  |   |  |                   '- pending, when it was delivered
                                |  |   |  '- the message's time
                                |  |   '- consumer sequence
                                |  '- stream sequence
                                '- deliveries

An ack is plain if it has no reply, and is empty or `+ACK`. All others (`-NAK`, those that want to
be confirmed, the form with 12 tokens, to consumers that are not there, for what is not pending) are
left to `Consumers.acknowledge`. Each ack has another subject, so none of them makes a route.
"""

from collections.abc import Callable

import cython

from broker.dataplane.stream_table import AckTaker
from broker.streams.deliverer import Deliverer
from sequencer.message import Message
from sequencer.sequencer import Sequencer

if cython.compiled:
    from cython.cimports.libc.string import memcmp
else:
    from broker.streams.deliverer import ACKED, ROOM

    PREFIX = 8  # bytes of `$JS.ACK.`
    WORD = 4  # bytes of `+ACK`
    DIGITS_MAX = 19


class AckReader(AckTaker):
    """The reader of acks. One per broker.

    `changed`: consumers whose state was changed since somebody took that list; `wake` is called
    for the first of them. `has_room` is called with a consumer that waited for acks.
    """

    def __init__(
        self,
        sequencer: Sequencer,
        wake: Callable[[], None],
        has_room: Callable[[object, int], None],
    ) -> None:
        self.sequencer = sequencer
        self.wake = wake
        self.has_room = has_room
        self.changed: list[Deliverer] = []
        self.acks = 0  # that were taken
        self.deliverers: dict[bytes, Deliverer] = {}  # by `STREAM.CONSUMER`
        self.recent: Deliverer | None = None  # of the last ack, and its name
        self.recent_name = b""
        self.at = 0  # where the numbers of an ack are read
        self.ok = True

    def know(self, name: bytes, deliverer: Deliverer) -> None:
        """Take the acks of a consumer; `name` is `STREAM.CONSUMER`."""
        self.deliverers[name] = deliverer

    def forget(self, name: bytes) -> None:
        """Take no more acks of a consumer."""
        self.deliverers.pop(name, None)
        self.recent = None
        self.recent_name = b""

    def note_changed(self, deliverer: Deliverer) -> None:
        """Note that a consumer has something to be kept."""
        if deliverer.kept and not deliverer.is_listed:
            deliverer.is_listed = True
            self.changed.append(deliverer)
            if len(self.changed) == 1:
                self.wake()

    def take(self, message: Message) -> bool:
        """Take an ack; return False, and do nothing, if it is not a plain one."""
        if message.reply_size or not self._is_plain(message):
            return False
        data, start = message.data, message.subject
        end = start + message.subject_size
        deliverer = self._find(message, start + PREFIX, end)
        if deliverer is None or not deliverer.with_acks:
            return False
        self.ok = True
        self._number(data, end)
        number = self._number(data, end)
        own = self._number(data, end)
        time = self._number(data, end)
        self._number(data, end)
        if not self.ok or self.at != end:
            return False
        outcome = deliverer.ack(number, own, time, self.sequencer.steady)
        if not outcome & ACKED:
            return False
        self.acks += 1
        self.note_changed(deliverer)
        if outcome & ROOM:
            self.has_room(deliverer.consumer, self.sequencer.steady)
        return True

    def _is_plain(self, message: Message) -> bool:
        """True if it is to an ack subject, and empty or `+ACK`."""
        if message.subject_size <= PREFIX or message.header_size:
            return False
        if cython.compiled:
            if memcmp(message.data + message.subject, b"$JS.ACK.", PREFIX) != 0:
                return False
            if message.payload_size == 0:
                return True
            same = message.payload_size == WORD
            return same and memcmp(message.data + message.payload, b"+ACK", WORD) == 0
        else:
            begin, body = message.subject, message.payload
            if message.data[begin : begin + PREFIX] != b"$JS.ACK.":
                return False
            return bytes(message.data[body : body + message.payload_size]) in (b"", b"+ACK")

    def _find(self, message: Message, begin: int, end: int) -> Deliverer | None:
        """Return the consumer of that name: the same as the last one's, most likely.

        The numbers begin at `at` then, behind the second dot.
        """
        data, size = message.data, len(self.recent_name)
        if self.recent is not None and end - begin > size and data[begin + size] == ord("."):
            self.at = begin + size
            if cython.compiled:
                raw = cython.cast(
                    "const unsigned char *", cython.cast("const char *", self.recent_name)
                )
                if memcmp(raw, data + begin, size) == 0:
                    return self.recent
            elif self.recent_name == data[begin : self.at]:
                return self.recent
        at, dots = begin, 0
        while at < end:
            if data[at] == ord("."):
                dots += 1
                if dots == 2:
                    break
            at += 1
        self.at = at
        name = bytes(data[begin:at])
        found = self.deliverers.get(name)
        if found is None:
            return None
        self.recent = cython.cast(Deliverer, found)
        self.recent_name = name
        return self.recent

    def _number(self, data: bytes | bytearray, end: int) -> int:
        """Read `.` and a decimal number; otherwise `ok` is false."""
        at, value = self.at, 0
        if at >= end or data[at] != ord("."):
            self.ok = False
            return 0
        at += 1
        begin = at
        while at < end:
            digit = data[at] - ord("0")
            if digit < 0 or digit > 9:
                break
            value = 10 * value + digit
            at += 1
        if at == begin or at - begin > DIGITS_MAX:
            self.ok = False
        self.at = at
        return value
