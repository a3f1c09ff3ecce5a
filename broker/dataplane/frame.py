r"""The bytes around a payload on its way to subscribers, written once per message.

    MSG orders 1 23\r\n23:5:88485,11:  hello world  ,,\r\n
    |-- line --|------- head --------|-- payload --|-tail-|

A Frame has one of five shapes: the number in a netstring, no number, or the number in a header; and
the first two again for messages with their own headers. The head stays in place between
messages: in a run of equal sizes, only the digits that change are rewritten. The line that
announces the message is written leftwards from the head, and stays while subject and sid are the
same. So a delivery is three copies: line and head, payload, tail. The payload is copied straight
from the receive buffer to the outbox.

    0 ... start <- line -> margin <- head -> end ... margin + room

Format: netstrings, https://cr.yp.to/proto/netstrings.txt; NATS headers, ADR-4. Memory: the
longest line and the longest headers so far, and no payload.
"""

import cython

from sequencer.headers import STATUS_LINE, with_fields
from sequencer.message import Message
from sublist.route import Route

if cython.compiled:
    from cython.cimports.libc.string import memcmp
else:
    from sequencer.digits import frame_size, inner_size, width_of, write_decimal

    FRAMED, BARE, FRAMED_HEADERS, BARE_HEADERS, NUMBERED_HEADERS = range(5)
    MARGIN_MIN = 512
    ROOM_MIN = 512

NUMBER_FIELD = b"Nats-Sequence: "


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
            self._lay_out(message.number, size)
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
        if self.shape == NUMBERED_HEADERS:
            return self._number_header(
                number, message.data, message.body, header_size, message.size
            )
        self._sizes(message)
        self._literal(b"\r\n")
        self._copy(message.data, message.body, header_size)
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
        """Make the head stale: the next message gets a new one, even without a number."""
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

    def _lay_out(self, number: int, size: int) -> int:
        """Write the head again, for another size or a number of another width."""
        self.end = self.margin
        self.size = size
        if self.shape == FRAMED:
            self._decimal(frame_size(number, size))
            self._literal(b"\r\n")
            return self._frame_head(number, size)
        width = width_of(number)
        inner = len(STATUS_LINE) + len(NUMBER_FIELD) + width + 4
        self._decimal(inner)
        self._literal(b" ")
        self._decimal(inner + size)
        self._literal(b"\r\n")
        self._literal(STATUS_LINE)
        self._literal(NUMBER_FIELD)
        self.digits = self.end
        self._decimal(number)
        self.digits_end = self.end
        self._literal(b"\r\n\r\n")
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

    def _number_header(
        self, number: int, data: bytes | bytearray, body: int, header_size: int, size: int
    ) -> int:
        """Put the number into the message's own headers, after their first line.

        Header blocks with another first line, or perhaps with a number already, are rewritten.
        """
        line = len(STATUS_LINE)
        if not is_simple(data, body, header_size):
            block = with_fields(
                bytes(data[body : body + header_size]), b"%b%d\r\n" % (NUMBER_FIELD, number)
            )
            self._decimal(len(block))
            self._literal(b" ")
            self._decimal(len(block) + size - header_size)
            self._literal(b"\r\n")
            self._literal(block)
            return 0
        extra = len(NUMBER_FIELD) + width_of(number) + 2
        self._decimal(header_size + extra)
        self._literal(b" ")
        self._decimal(size + extra)
        self._literal(b"\r\n")
        self._copy(data, body, line)
        self._literal(NUMBER_FIELD)
        self._decimal(number)
        self._literal(b"\r\n")
        self._copy(data, body + line, header_size - line)
        return 0

    def _widen(self, margin: int, room: int) -> int:
        """Make room for a longer line or longer headers; the head must then be written again."""
        head = self.buffer[self.margin : self.end]
        buffer = bytearray(margin + room)
        buffer[margin : margin + len(head)] = head
        moved = margin - self.margin
        self.digits += moved
        self.digits_end += moved
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
    """True if a header block begins in the usual way, and surely contains no number yet."""
    line = len(STATUS_LINE)
    if size <= line or data[body + line] == ord(" ") or data[body + line] == ord("\t"):
        return False
    if cython.compiled:
        first = b"NATS/1.0\r\n"
        if memcmp(data + body, first, line) != 0:
            return False
        at = body + line + 5
        end = body + size - 5
        while at < end:  # look for the Q of `nats-sequence`, which hardly any other header has
            if data[at] | 0x20 == ord("q") and data[at + 1] | 0x20 == ord("u"):
                return False
            at += 1
        return True
    else:
        block = data[body : body + size]
        return block.startswith(STATUS_LINE) and b"equence" not in block.lower()
