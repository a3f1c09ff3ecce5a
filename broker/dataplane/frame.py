r"""The bytes around a payload on its way to subscribers, written once per message.

    MSG orders 1 23\r\n23:5:88485,11:  hello world  ,,\r\n
    |-- line --|------- head --------|-- payload --|-tail-|

A Frame has one of six shapes: the number in a netstring, or no number, both again for messages with
their own headers; the number in a header, or number and time. The head stays in place between
messages: in a run of equal sizes, only the digits that change are rewritten. The line that
announces the message is written leftwards from the head, and stays while subject and sid are the
same. So a delivery is three copies: line and head, payload, tail. The payload is copied straight
from the receive buffer to the outbox.

    0 ... start <- line -> margin <- head -> end ... margin + room

Format: netstrings, https://cr.yp.to/proto/netstrings.txt; NATS headers, ADR-4. Memory: the
longest line and the longest headers so far, and no payload.
"""

import cython

from broker.dataplane.time_text import TimeText
from sequencer.headers import with_fields, without_fields
from sequencer.message import Message
from sublist.route import Route

if cython.compiled:
    from cython.cimports.libc.string import memchr, memcmp
else:
    from broker.dataplane.time_text import TIME_SIZE
    from sequencer.digits import frame_size, inner_size, width_of, write_decimal

    FRAMED, BARE, FRAMED_HEADERS, BARE_HEADERS, NUMBERED_HEADERS, STAMPED_HEADERS = range(6)
    STATUS_SIZE = 10  # of `NATS/1.0` and its line end
    NUMBER_SIZE = 15  # of `Nats-Sequence: `
    STAMP_SIZE = 19  # of `Nats-Time-Stamp: `, and of the line end before it
    MARGIN_MIN = 512
    ROOM_MIN = 512

NUMBER_NAMES = frozenset((b"nats-sequence",))
STAMP_NAMES = frozenset((b"nats-sequence", b"nats-time-stamp"))


class Frame:
    """The bytes around a payload in one shape, for the number `number`.

    Only the data plane writes it.
    """

    def __init__(self, shape: int) -> None:
        self.shape = shape
        self.verb = b"HMSG " if shape >= FRAMED_HEADERS else b"MSG "
        framed = shape in (FRAMED, FRAMED_HEADERS)
        self.tail_bytes = b",,\r\n" if framed else b"\r\n  "  # always copied as four bytes
        self.tail = self.tail_bytes
        self.tail_size = 4 if framed else 2
        self.margin = MARGIN_MIN
        self.room = ROOM_MIN
        self.buffer = bytearray(MARGIN_MIN + ROOM_MIN)
        self.data = self.buffer
        self.start = self.end = self.margin
        self.number = 0
        self.size = -1  # the payload size that the head is laid out for
        self.header_size = 0  # the same of the headers, if the number follows them
        self.headers_at = 0
        self.width = 0  # digits of the size, without a number
        self.digits = self.digits_end = 0  # the span of the number
        self.time = TimeText()
        self.time_at = 0  # where the head has the text of the time
        self.line_route: Route | None = None  # the route of the line
        self.sid = b""

    def write_head(self, message: Message) -> int:
        """Write the head for a message, with its headers if this shape has them.

        The size is relayed exactly as the publisher wrote it (`005`), as in nats-server.
        """
        if message.header_size and self.shape >= FRAMED_HEADERS:
            return self._write_headers_head(message)
        size = message.payload_size
        if self.shape == BARE:
            digits = 0 if message.header_size else message.digits_end - message.digits
            width = digits if digits else width_of(size)
            if size != self.size or width != self.width:
                self.end = self.margin
                if digits:
                    self._copy(message.data, message.digits, digits)
                else:
                    self._decimal(size)
                self._literal(b"\r\n")
                self.size = size
                self.width = width
        elif message.number != self.number + 1 or size != self.size or not self._count_up():
            self._lay_out(message.number, size, message.time)
        elif self.shape == STAMPED_HEADERS and message.time != self.time.ns:
            self._change_time(message.time)
        self.number = message.number
        return 0

    def _write_headers_head(self, message: Message) -> int:
        """Write the head for a message with headers."""
        number, header_size = message.number, message.header_size
        if self.room < header_size + ROOM_MIN:
            self._widen(self.margin, header_size + ROOM_MIN)
        if self.shape == FRAMED_HEADERS:
            return self._frame_headers(message)
        self.number = number
        self.size = -1  # the next head must be laid out again
        self.end = self.margin
        if self.shape >= NUMBERED_HEADERS:
            return self._number_header(message)
        return self._bare_headers(message)

    def _bare_headers(self, message: Message) -> int:
        """Write the sizes, and the headers as they are."""
        self._sizes(message)
        self._literal(b"\r\n")
        self._copy(message.data, message.body, message.header_size)
        return 0

    def _frame_headers(self, message: Message) -> int:
        """Write the sizes, the headers, and the frame up to its payload."""
        number, size, header_size = message.number, message.payload_size, message.header_size
        same = header_size == self.header_size and size == self.size
        if same and number == self.number + 1 and self._count_up():
            end = self.end
            self.end = self.headers_at
            self._copy(message.data, message.body, header_size)
            self.end = end
        else:
            self.end = self.margin
            self._decimal(header_size)
            self._literal(b" ")
            self._decimal(header_size + frame_size(number, size))
            self._literal(b"\r\n")
            self.headers_at = self.end
            self._copy(message.data, message.body, header_size)
            self._frame_head(number, size)
            self.header_size = header_size
            self.size = size
        self.number = number
        return 0

    def _sizes(self, message: Message) -> int:
        """Write both sizes, as the publisher wrote them if that is known."""
        if message.header_digits_end:
            digits = message.header_digits_end - message.header_digits
            self._copy(message.data, message.header_digits, digits)
            self._literal(b" ")
            self._copy(message.data, message.digits, message.digits_end - message.digits)
        else:
            self._decimal(message.header_size)
            self._literal(b" ")
            self._decimal(message.size)
        return 0

    def expire(self) -> None:
        """Make a head without a number stale: the next such message gets a new one."""
        if self.number == 0:
            self.number = 0xFFFFFFFFFFFFFFFF

    def write_line(self, message: Message, sid: bytes, route: Route | None) -> int:
        """Write the line `MSG subject sid [reply] ` left of the head, for this route."""
        subject_size, reply_size = message.subject_size, message.reply_size
        need = subject_size + len(sid) + reply_size + 8
        if self.margin < need:
            self._widen(need, self.room)
        self.line_route = route
        self.sid = sid
        end = self.end  # _copy and _literal write at `end`: use it for the line in the meantime
        self.start = self.margin - len(self.verb) - subject_size - len(sid) - 2
        if reply_size:
            self.start -= reply_size + 1
        self.end = self.start
        self._literal(self.verb)
        # A live message's subject comes from the receive buffer, which is in the cache.
        self._copy(message.subject_data, message.subject, subject_size)
        self._literal(b" ")
        self._literal(sid)
        self._literal(b" ")
        if reply_size:
            self._copy(message.data, message.reply, reply_size)
            self._literal(b" ")
        self.end = end
        return 0

    def has_line_of(self, route: Route, sid: bytes) -> bool:
        """True if the line is for this route and sid."""
        return self.line_route is route and (self.sid is sid or self.sid == sid)

    def _count_up(self) -> bool:
        """Add one to the number in place; return False if it needs another digit."""
        digits = self.data
        first = self.digits
        at = self.digits_end - 1
        while at >= first:
            if digits[at] != ord("9"):
                digits[at] += 1
                return True
            digits[at] = ord("0")
            at -= 1
        return False

    def _lay_out(self, number: int, size: int, time: int) -> int:
        """Write the head again, for another size or a number of another width."""
        self.end = self.margin
        self.size = size
        if self.shape == FRAMED:
            self._decimal(frame_size(number, size))
            self._literal(b"\r\n")
            return self._frame_head(number, size)
        inner = STATUS_SIZE + self._fields_size(number) + 2
        self._decimal(inner)
        self._literal(b" ")
        self._decimal(inner + size)
        self._literal(b"\r\n")
        self._literal(b"NATS/1.0\r\n")
        self._fields(number, time)
        self._literal(b"\r\n")
        return 0

    def _fields_size(self, number: int) -> int:
        """Return the size of the broker's own lines in the headers."""
        size = NUMBER_SIZE + width_of(number) + 2
        if self.shape == STAMPED_HEADERS:
            size += STAMP_SIZE + TIME_SIZE
        return size

    def _fields(self, number: int, time: int) -> int:
        """Write the broker's own lines."""
        self._literal(b"Nats-Sequence: ")
        self.digits = self.end
        self._decimal(number)
        self.digits_end = self.end
        if self.shape == STAMPED_HEADERS:
            self._literal(b"\r\nNats-Time-Stamp: ")
            if time != self.time.ns:
                self.time.write(time)
            self.time_at = self.end
            self._copy(self.time.data, 0, TIME_SIZE)
        self._literal(b"\r\n")
        return 0

    def _change_time(self, time: int) -> int:
        """Put another time into the head."""
        self.time.write(time)
        end = self.end
        self.end = self.time_at
        self._copy(self.time.data, 0, TIME_SIZE)
        self.end = end
        return 0

    def _frame_head(self, number: int, size: int) -> int:
        """Write `L:<n>:<number>,<m>:`, the frame up to its payload."""
        self._decimal(inner_size(number, size))
        self._literal(b":")
        self._decimal(width_of(number))
        self._literal(b":")
        self.digits = self.end
        self._decimal(number)
        self.digits_end = self.end
        self._literal(b",")
        self._decimal(size)
        self._literal(b":")
        return 0

    def _number_header(self, message: Message) -> int:
        """Put the broker's lines into the message's own headers, after their first line.

        Header blocks with another first line, or perhaps with such lines already, are rewritten.
        """
        number, size, header_size = message.number, message.size, message.header_size
        line = STATUS_SIZE
        if not is_simple(message.data, message.body, header_size):
            return self._rewrite_headers(message)
        if number == 0:
            return self._bare_headers(message)
        extra = self._fields_size(number)
        self._decimal(header_size + extra)
        self._literal(b" ")
        self._decimal(size + extra)
        self._literal(b"\r\n")
        self._copy(message.data, message.body, line)
        self._fields(number, message.time)
        self._copy(message.data, message.body + line, header_size - line)
        return 0

    def _rewrite_headers(self, message: Message) -> int:
        """Write the headers without forged lines; with the broker's, if there is a number."""
        number, header_size = message.number, message.header_size
        own = bytes(message.data[message.body : message.body + header_size])
        if number:
            at = self.end
            self._fields(number, message.time)
            fields = bytes(self.buffer[at : self.end])
            self.end = at
            block = with_fields(own, fields)
        else:
            names = STAMP_NAMES if self.shape == STAMPED_HEADERS else NUMBER_NAMES
            block = without_fields(own, names)
            if block == own:
                return self._bare_headers(message)
        self._decimal(len(block))
        self._literal(b" ")
        self._decimal(len(block) + message.size - header_size)
        self._literal(b"\r\n")
        self._literal(block)
        return 0

    def _widen(self, margin: int, room: int) -> int:
        """Make room for a longer line or longer headers; the head must then be written again."""
        head = self.buffer[self.margin : self.end]
        buffer = bytearray(margin + room)
        buffer[margin : margin + len(head)] = head
        moved = margin - self.margin
        self.digits += moved
        self.digits_end += moved
        self.time_at += moved
        self.headers_at += moved
        self.end += moved
        self.start = margin
        self.line_route = None
        self.margin = margin
        self.room = room
        self.buffer = buffer
        self.data = self.buffer
        return 0

    def _copy(self, source: bytes | bytearray, start: int, count: int) -> None:
        """Append a span; there must be room for it."""
        if cython.compiled:
            copy_span(self.data + self.end, source + start, count)
        else:
            self.data[self.end : self.end + count] = source[start : start + count]
        self.end += count

    def _literal(self, text: bytes) -> None:
        self._copy(text, 0, len(text))

    def _decimal(self, value: int) -> None:
        """Append a number in ASCII decimal."""
        self.end = write_decimal(self.data, self.end, value)


def is_simple(data: bytes | bytearray, body: int, size: int) -> bool:
    """True if a header block begins in the usual way, and surely has none of the broker's lines.

    Those have the names `nats-sequence` and `nats-time-stamp`; hardly another has `s-seq`, `s-tim`.
    """
    line = STATUS_SIZE
    if size <= line or data[body + line] == ord(" ") or data[body + line] == ord("\t"):
        return False
    if cython.compiled:
        first = b"NATS/1.0\r\n"
        if memcmp(data + body, first, line) != 0:
            return False
        at = data + body + line
        end = data + body + size - 3
        while at < end:
            at = cython.cast("const unsigned char *", memchr(at, ord("-"), end - at))
            if at == cython.NULL:
                break
            if at[-1] | 0x20 == ord("s"):
                letter = at[1] | 0x20
                if letter == ord("s") and at[2] | 0x20 == ord("e") and at[3] | 0x20 == ord("q"):
                    return False
                if letter == ord("t") and at[2] | 0x20 == ord("i") and at[3] | 0x20 == ord("m"):
                    return False
            at += 1
        return True
    else:
        block = data[body : body + size]
        lower = block.lower()
        return block.startswith(b"NATS/1.0\r\n") and b"s-seq" not in lower and b"s-tim" not in lower
