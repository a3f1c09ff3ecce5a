r"""The byte machine: reads the receive buffer and returns operations as spans of that buffer.

    attach(buffer, start, stop)        the bytes that have not been consumed yet
    next() -> PUB, SUB, PING, ...      a whole operation; its spans are in the attributes
           -> IGNORED                  a whole line that a server ignores
           -> MORE                     the rest is incomplete; more bytes are needed
           -> FAULT                    `fault` says what was wrong; the stream has ended

parser/table.py defines the states and transitions. A verb, or a line that is ignored, need
not stay in the buffer: `state` remembers how far it got. An argument line and its payload
stay in the buffer from `at` on until they are complete, so the caller keeps `buffer[at:stop]`.
`need` says how many bytes, from `at` on, the operation takes at least; 0 if not known yet.

Rule 1  This file knows the wire protocol only: no socket, no clock, no subscriptions.
Rule 2  Every index is below `stop` when it is read. A size has at most nine digits, so no
        sum of spans can overflow.
Rule 3  `next` has a fast path for `PUB subject size`, by far the most common line, and one for
        HPUB. They take complete, plain lines only and leave the rest to `_walk`, which could do
        all of it.
"""

# Theory of operation
#
# There are two ways through this file, and they give the same result for any bytes.
#
# `_walk` is the machine: one table look-up for each byte of a verb. What follows the verb is not
# in the table. It is scanned as a line, up to the line feed:
#
#     bytes    HPUB a.b in.1 12 20 CR LF  NATS/1.0 ... payload  CR LF
#              ----                                             -----
#     table    verb                                             none: `_payload` looks at two bytes
#     scan          `_line` finds the end, `_words` the spans, `_number` the sizes
#
# So the PAYLOAD state that docs/protocol.md shows is not in the table: parser/table.py adds its
# arrows by hand. In a table, each byte of each payload would cost a look-up.
#
# `next` has the fast path, for what clients send most: `PUB subject [reply] size` in upper-case
# letters, with single blanks, complete in the buffer with its payload (and for HPUB in `_headed`).
# It scans the line once and
# sets the spans. Where a subject ends it finds 16 bytes at a time (scan.h): byte by byte, that was
# most of its time. If the line is anything else, nothing has been changed yet, and `_walk` takes
# it: the fast path itself refuses nothing. tests/parser compares both with a reference.
#
# `peek` does half of the fast path for the operation after this one. The sublist can then load
# that subject's route into the cache in the meantime. `next` reuses the result of that scan.
#
# When bytes run out, only two things are kept: where the operation begins (`at`), and the state
# after the verb. So when a payload arrives in pieces, its control line is scanned again for each
# piece, which is a few dozen bytes per read. `need` tells the reader how many bytes to wait for,
# so it need not call `next` before they have arrived.

import cython

from parser.errors import (
    BadArguments,
    ControlLineTooLong,
    HeadersNotAgreed,
    PayloadTooLarge,
    PayloadUnended,
    PeerError,
    UnknownOperation,
    WireError,
)
from parser.table import TRANSITIONS

if not cython.compiled:
    from parser.ops import CONNECT, FAULT, HPUB, IGNORED, INFO, MORE, PING, PONG, PUB, SUB, UNSUB
    from parser.table import (
        BROKEN,
        CONNECT_ARGUMENT,
        ERR_ARGUMENT,
        FIRST_FINAL,
        HPUB_ARGUMENT,
        INFO_ARGUMENT,
        OK_END,
        PING_END,
        PUB_ARGUMENT,
        START,
        SUB_ARGUMENT,
        UNSUB_ARGUMENT,
    )

    DIGITS_MAX = 9
    COUNT_BITS, COUNT_MASK = 4, 15  # of what `scan_number` returns
    SPACE, TAB, CR, LF = 32, 9, 13, 10

    def scan_word(data: bytearray, at: int, stop: int) -> int:
        """Return the place of the first blank or control from `at` on; `stop` if there is none."""
        while at < stop and data[at] > SPACE:
            at += 1
        return at

    def scan_number(data: bytearray, at: int, stop: int) -> int:
        """Return the number at `at`, of up to nine digits, above four bits with their count."""
        number, begin = 0, at
        last = min(begin + DIGITS_MAX, stop)
        while at < last and ord("0") <= data[at] <= ord("9"):
            number = number * 10 + data[at] - ord("0")
            at += 1
        return number << COUNT_BITS | at - begin

    def scan_pub(data: bytearray, at: int) -> bool:
        """True if the next four bytes, which are there, are `PUB `."""
        return data[at : at + 4] == b"PUB "

    def scan_hpub(data: bytearray, at: int) -> bool:
        """True if the next five bytes, which are there, are `HPUB `."""
        return data[at : at + 5] == b"HPUB "

    def scan_end(data: bytearray, at: int) -> bool:
        """True if the next two bytes, which are there, end a line."""
        return data[at : at + 2] == b"\r\n"


class Parser:
    """The parser of one connection: positions, not bytes. Written by the connection's reader."""

    def __init__(self, max_control_line: int = 4096, max_payload: int = 1 << 20) -> None:
        self.buffer = bytearray()
        self.data = self.buffer
        self.transitions = TRANSITIONS
        self.table = self.transitions
        self.max_control_line = max_control_line
        self.max_payload = max_payload
        self.headers = True  # whether the client may send HPUB
        self.state = START
        self.at = self.stop = self.need = 0
        self.peeked = -1  # the subject that `peek` scanned
        self.peeked_end = 0
        self.subject = self.subject_end = self.reply = self.reply_end = 0
        self.digits = self.digits_end = self.header_digits = self.header_digits_end = 0
        self.body = self.size = self.header_size = 0
        self.fault: WireError | None = None

    def limit(self, max_control_line: int, max_payload: int) -> None:
        """Check what comes from now on against other limits."""
        self.max_control_line = max_control_line
        self.max_payload = max_payload

    def attach(self, buffer: bytearray, start: int, stop: int) -> int:
        """Parse `buffer[start:stop]`, which begins with the bytes that were kept."""
        assert 0 <= start <= stop <= len(buffer), "the span must lie in the buffer"
        self.buffer = buffer
        self.data = self.buffer
        self.at = start
        self.stop = stop
        self.peeked = -1
        return 0

    def next(self) -> int:
        """Return the next whole operation, MORE or FAULT. See the module's docstring."""
        data = self.data
        stop = self.stop
        start = self.at
        begun = self.state != START or stop - start <= 8
        if not begun and scan_pub(data, start):
            start += 4
            subject_end = self.peeked_end if self.peeked == start else scan_word(data, start, stop)
            reply = reply_end = 0
            digits = subject_end + 1  # the byte between them is checked below
            number = scan_number(data, digits, stop)
            at = digits + (number & COUNT_MASK)
            if at < stop and data[at] != CR:
                reply = digits  # it was not the size, so it is the reply; the size comes next
                reply_end = scan_word(data, at, stop)
                digits = reply_end + 1
                number = scan_number(data, digits, stop)
                at = digits + (number & COUNT_MASK)
            size = number >> COUNT_BITS
            if (
                stop - at >= size + 4  # so everything below lies before `stop`
                and scan_end(data, at)
                and at > digits
                and subject_end > start
                and data[subject_end] == SPACE
                and (reply_end == 0 or (reply_end > reply and data[reply_end] == SPACE))
                and at - start <= self.max_control_line
                and size <= self.max_payload
                and scan_end(data, at + 2 + size)
            ):
                self.subject = start
                self.subject_end = subject_end
                self.reply = reply
                self.reply_end = reply_end
                self.digits = digits
                self.digits_end = at
                self.body = at + 2
                self.size = size
                self.at = at + size + 4
                return PUB
        elif not begun and self.headers and scan_hpub(data, start) and self._headed(start + 5):
            return HPUB
        return self._walk()

    def _headed(self, start: int) -> bool:
        """Set the spans of an HPUB whose arguments begin at `start`; False if `_walk` must do it.

        It is the fast path of `next` once more, with one number more. A reply in digits only is
        left to `_walk`.
        """
        data = self.data
        stop = self.stop
        subject_end = scan_word(data, start, stop)
        reply = reply_end = 0
        header_digits = subject_end + 1  # the bytes between the words are checked below
        number = scan_number(data, header_digits, stop)
        header_end = header_digits + (number & COUNT_MASK)
        if header_end < stop and data[header_end] != SPACE:
            reply = header_digits  # it was not a size, so it is the reply
            reply_end = scan_word(data, header_end, stop)
            header_digits = reply_end + 1
            number = scan_number(data, header_digits, stop)
            header_end = header_digits + (number & COUNT_MASK)
        header_size = number >> COUNT_BITS
        digits = header_end + 1
        number = scan_number(data, digits, stop)
        at = digits + (number & COUNT_MASK)
        size = number >> COUNT_BITS
        if not (
            stop - at >= size + 4  # so everything below lies before `stop`
            and scan_end(data, at)
            and at > digits
            and header_end > header_digits
            and data[header_end] == SPACE
            and subject_end > start
            and data[subject_end] == SPACE
            and (reply_end == 0 or (reply_end > reply and data[reply_end] == SPACE))
            and at - start <= self.max_control_line
            and header_size <= size <= self.max_payload
            and scan_end(data, at + 2 + size)
        ):
            return False
        self.subject = start
        self.subject_end = subject_end
        self.reply = reply
        self.reply_end = reply_end
        self.header_digits = header_digits
        self.header_digits_end = header_end
        self.header_size = header_size
        self.digits = digits
        self.digits_end = at
        self.body = at + 2
        self.size = size
        self.at = at + size + 4
        return True

    def peek(self) -> int:
        """Return the size of the next operation's subject if it is a plain PUB, else 0.

        The subject begins at `peeked`. Callers load what belongs to it in advance.
        """
        at = self.at
        if self.stop - at <= 8 or not scan_pub(self.data, at):
            return 0
        self.peeked = at + 4
        self.peeked_end = scan_word(self.data, self.peeked, self.stop)
        return self.peeked_end - self.peeked

    def _walk(self) -> int:
        """Run the machine, byte by byte, through the verb; then handle what follows the verb."""
        data = self.data
        table = self.table
        stop = self.stop
        at = self.at
        state = self.state
        if self.fault is not None:
            return FAULT  # nothing can be parsed after a fault
        while state < FIRST_FINAL:
            if at == stop:
                return self._wait(state, at, 0)
            state = table[state << 8 | data[at]]
            at += 1
            if state >= FIRST_FINAL and state < PING_END:
                at -= 1  # the argument's first byte moves the machine to the argument state
        if state < PING_END:
            return self._line(state, at)
        if state == BROKEN:
            return self._broken(UnknownOperation(f"byte {data[at - 1]} in a verb"))
        self.state = START
        self.at = at
        if state == OK_END:
            return IGNORED
        return PING if state == PING_END else PONG

    def _line(self, state: int, at: int) -> int:
        """Find the end of the argument line that begins at `at`, check its length, and parse it."""
        data = self.data
        stop = self.stop
        if at == stop:
            return self._wait(state, at, 0)
        end = at + 1  # the first byte begins the arguments whatever it is, even a line feed
        while end < stop and data[end] != LF:
            end += 1
        length = end - at
        if length and data[end - 1] == CR:
            length -= 1
        if length > self.max_control_line:
            of_connect = state == CONNECT_ARGUMENT  # the verb may have left the buffer already
            return self._broken(ControlLineTooLong(f"{length} bytes of arguments", of_connect))
        if end == stop:
            return self._wait(state, at, 0)
        return self._dispatch(state, at, at + length, end + 1)

    def _dispatch(self, state: int, at: int, end: int, after: int) -> int:
        if state in (PUB_ARGUMENT, HPUB_ARGUMENT):
            return self._publish(state, at, end, after)
        self.state = START
        self.at = after
        self.subject = at
        self.subject_end = end
        self.reply = self.reply_end = self.digits = self.digits_end = 0
        if state == CONNECT_ARGUMENT:
            return CONNECT
        if state == INFO_ARGUMENT:
            return INFO
        if state == ERR_ARGUMENT:
            self.at = at
            return self._broken(PeerError("the client reported an error"))
        words = self._words(at, end, True)
        if state == SUB_ARGUMENT and 2 <= words <= 3:
            return SUB
        if state == UNSUB_ARGUMENT and 1 <= words <= 2:
            return UNSUB
        self.at = at  # so that the log can show the line
        return self._broken(BadArguments(f"{words} words after the verb"))

    def _words(self, at: int, end: int, any_blank: bool) -> int:
        """Set the spans of up to four words; return how many there are (5: more than four).

        Blanks are space and tab. With `any_blank`, CR and LF are too: nats-server splits SUB and
        UNSUB that way, and their lines may begin with a line feed.

        The first word is the subject (in UNSUB: the sid). The last is the digits (in SUB: the sid;
        in UNSUB: the max). Between them are the reply (in SUB: the queue) and HPUB's header size.
        """
        data = self.data
        count = 0
        while count < 5:
            while at < end and self._blank(data[at], any_blank):
                at += 1
            if at == end:
                break
            begin = at
            while at < end and not self._blank(data[at], any_blank):
                at += 1
            count += 1
            if count == 1:
                self.subject = begin
                self.subject_end = at
            else:
                if count == 3:
                    self.reply = self.digits
                    self.reply_end = self.digits_end
                self.header_digits = self.digits
                self.header_digits_end = self.digits_end
                self.digits = begin
                self.digits_end = at
        return count

    def _blank(self, byte: int, any_blank: bool) -> bool:
        return byte in (SPACE, TAB) or (any_blank and (byte in (CR, LF)))

    def _publish(self, state: int, at: int, end: int, after: int) -> int:
        """Set the spans and sizes of PUB and HPUB, and check them before the payload arrives."""
        self.reply = self.reply_end = self.digits = self.digits_end = 0
        words = self._words(at, end, False)
        if state == PUB_ARGUMENT:
            if words < 2 or words > 3:
                return self._broken(BadArguments(f"{words} words after PUB"))
        else:
            if not self.headers:
                return self._broken(HeadersNotAgreed("HPUB without headers in CONNECT"))
            if words < 3 or words > 4:
                return self._broken(BadArguments(f"{words} words after HPUB"))
            if words == 3:
                self.reply = self.reply_end = 0
            self.header_size = self._number(self.header_digits, self.header_digits_end)
            if self.header_size < 0:
                return self._broken(BadArguments("the header size is not a number"))
        self.size = self._number(self.digits, self.digits_end)
        if self.size < 0:
            return self._broken(BadArguments("the size is not a number of 1 to 9 digits"))
        if state == HPUB_ARGUMENT and self.header_size > self.size:
            return self._broken(BadArguments("the headers are larger than the whole"))
        if self.size > self.max_payload:
            return self._broken(PayloadTooLarge(f"{self.size} bytes announced"))
        return self._payload(state, at, after)

    def _payload(self, state: int, at: int, body: int) -> int:
        """Check the payload and its line end, as far as they have arrived."""
        data = self.data
        stop = self.stop
        end = body + self.size
        if (end < stop and data[end] != CR) or (end + 1 < stop and data[end + 1] != LF):
            return self._broken(PayloadUnended("a payload does not end with CR LF"))
        if stop - end < 2:
            return self._wait(state, at, end + 2 - at)
        self.body = body
        self.state = START
        self.at = end + 2
        return PUB if state == PUB_ARGUMENT else HPUB

    def mentions(self, name: bytes, size: int) -> bool:
        """True if a name, of `size` bytes, occurs in the headers of the current HPUB."""
        if cython.compiled:
            text = name
            return memmem(self.data + self.body, self.header_size, text, size) != cython.NULL
        else:
            return name in self.buffer[self.body : self.body + self.header_size]

    def _number(self, at: int, end: int) -> int:
        """Parse a decimal of one to nine digits; -1 if it is not one."""
        number = scan_number(self.data, at, end)
        count = number & COUNT_MASK
        return number >> COUNT_BITS if count and count == end - at else -1

    def _wait(self, state: int, at: int, need: int) -> int:
        self.state = state
        self.at = at
        self.need = need
        return MORE

    def _broken(self, fault: WireError) -> int:
        """Fail for good: the connection that reads this stream is closed."""
        self.state = BROKEN
        self.fault = fault
        return FAULT
