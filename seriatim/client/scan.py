"""Finds messages in what was read from a socket: many at a time, in the form brokers write.

    MSG orders 1 5\r\nhello\r\n        HMSG orders 1 reply 12 17\r\nNATS/1.0\r\n\r\nhello\r\n

Only whole messages are taken. A message that is not all there, a line of another kind, and
anything unusual stay where they are: the protocol looks at those, slowly and strictly.
"""

import re

import cython

from seriatim.client.stream_message import NUMBER_LINE, Message, is_stamped

_HEADED = re.compile(
    rb"HMSG (\S+) (\d{1,10}) (?:(\S+) )?(\d{1,10}) (\d{1,10})\r\n"
    rb"(?:%b([1-9]\d{,17})\r)?" % re.escape(NUMBER_LINE)
).match
_BARE = re.compile(rb"MSG (\S+) (\d{1,10}) (?:(\S+) )?(\d{1,10})\r\n").match
_KNOWN_MAX = 4096


class Scanner:
    """The reader of messages of one connection.

    `trusted`: the broker is a Seriatim, which alone writes the number and the time into the
    headers. `numbered_only`: stop at each message without a number, for a caller that must look
    at those.
    """

    def __init__(self, numbered_only: bool = False) -> None:
        self.trusted = False
        self.numbered_only = numbered_only
        self.subject = ""  # the last one, and its bytes: messages often come in runs of one
        self.subject_bytes = b""
        if not cython.compiled:
            self.known: dict[bytes, str] = {}
            self.decimals: dict[bytes, int] = {}  # sizes and ids: `int` is slow

    def scan(self, buffer: bytearray, at: int, end: int, found: list[Message]) -> int:
        """Append the whole messages in `buffer` from `at` to `end`; return where they end."""
        if cython.compiled:
            return self._scan_compiled(buffer, at, end, found)
        else:
            return self._scan_plain(buffer, at, end, found)

    def _scan_compiled(self, buffer: bytearray, at: int, end: int, found: list[Message]) -> int:
        """Append messages, by C's means."""
        if cython.compiled:
            data, prefix, prefix_size = buffer, NUMBER_LINE, len(NUMBER_LINE)
            while message_line_read(data, at, end, cython.address(line)):
                stop = line.body + line.size
                if stop + 2 > end or data[stop] != 13 or data[stop + 1] != 10:
                    break
                payload = line.body + line.head
                block = data[line.body : payload] if line.head else b""
                number = 0
                if self.trusted and line.head > prefix_size:
                    if memcmp(data + line.body, prefix, prefix_size) == 0:
                        number = message_number(data, line.body + prefix_size, payload)
                    elif is_stamped(block):
                        number = -1
                if self.numbered_only and not number:
                    break
                made = cython.cast(Message, Message.__new__(Message))
                # The collector would look at thousands of them, and no cycle leads through one.
                PyObject_GC_UnTrack(made)
                made.subject = self._subject(data + line.subject, line.subject_end - line.subject)
                made.reply = ""
                if line.reply_end > line.reply:
                    made.reply = data[line.reply : line.reply_end].decode(
                        "utf-8", "surrogateescape"
                    )
                made.block = block
                made.payload = data[payload:stop]
                made.sid = line.sid
                made._number = number
                made._time = -1 if number else 0
                found.append(made)
                at = stop + 2
        return at

    def _subject(self, data: bytes, size: int) -> str:
        """Return a subject as text, the same object as the last one if it is equal."""
        if cython.compiled:
            if len(self.subject_bytes) == size:
                known = self.subject_bytes
                if memcmp(known, data, size) == 0:
                    return self.subject
            self.subject_bytes = data[:size]
            self.subject = self.subject_bytes.decode("utf-8", "surrogateescape")
        return self.subject

    def _scan_plain(self, buffer: bytearray, at: int, end: int, found: list[Message]) -> int:
        """Append messages, by Python's means."""
        data = bytes(memoryview(buffer)[at:end])  # slices of bytes are copied once
        known, decimals, trusted, append = self.known, self.decimals, self.trusted, found.append
        begin, length = 0, len(data)
        while begin < length:
            number = time = 0
            if data[begin] == 72:  # HMSG
                line = _HEADED(data, begin)
                if line is None:
                    break
                name, sid, reply, head, size, digits = line.groups()
                body = line.end(5) + 2
                start = body + (decimals.get(head) or self._decimal(head))
                stop = body + (decimals.get(size) or self._decimal(size))
                block = data[body:start]
                if trusted and digits and line.end() <= start:
                    number, time = int(digits), -1
                elif trusted and is_stamped(block):
                    number = time = -1
            else:
                line = _BARE(data, begin)
                if line is None:
                    break
                name, sid, reply, size = line.groups()
                block = b""
                start = line.end()
                stop = start + (decimals.get(size) or self._decimal(size))
            if start > stop or stop + 2 > length or data[stop] != 13 or data[stop + 1] != 10:
                break
            if not number and self.numbered_only:
                break
            subject = known.get(name) or self._remember(name)
            answer = reply.decode("utf-8", "surrogateescape") if reply else ""
            of = decimals.get(sid) or self._decimal(sid)
            append(Message(subject, answer, block, data[start:stop], of, number, time))
            begin = stop + 2
        return at + begin

    def _remember(self, name: bytes) -> str:
        if len(self.known) >= _KNOWN_MAX:
            self.known.clear()
        subject = self.known[name] = name.decode("utf-8", "surrogateescape")
        return subject

    def _decimal(self, digits: bytes) -> int:
        if len(self.decimals) >= _KNOWN_MAX:
            self.decimals.clear()
        size = self.decimals[digits] = int(digits)
        return size
