r"""A message: where its parts lie in a buffer. Nothing is copied to make one.

    PUB orders.new _INBOX.7 11\r\nhello world\r\n
        ^subject   ^reply   ^digits
                                  ^body = payload

A span is `(data, start, size)` in both builds: `data` is a pointer when compiled, and the buffer
itself otherwise; `data[subject : subject + subject_size]` is the subject of either. Only a message
that goes out under another subject than it came with has `subject_data` of its own.

A `Message` has no methods. Who finds a message fills one, and hands it on: the data plane from
what a client has sent, cquencer's port from a netstring. `Walk` is one that finds itself in the
journal. It is filled again for the next message, so whoever wants to keep a part copies it.
"""

import cython


class Message:
    """Spans of one message, and what the sequencer adds: its number and time."""

    def __init__(self) -> None:
        self.buffer: bytes | bytearray = b""  # owns what `data` points to
        if not cython.compiled:
            self.data: bytes | bytearray = b""
            self.subject_data: bytes | bytearray = b""
        self.subject = self.subject_size = 0
        self.reply = self.reply_size = 0  # size 0: there is none
        self.body = self.size = 0  # headers and payload
        self.header_size = self.payload = self.payload_size = 0
        self.digits = self.digits_end = 0  # `size` as the publisher wrote it; empty: not known
        self.header_digits = self.header_digits_end = 0  # and `header_size`
        self.mentions_nats = False  # among its headers one of NATS' own may be
        self.number = 0  # 0: it has none
        self.time = 0  # ns since 1970
        self.origin = self.origin_sequence = 0  # who published it, as the how manieth
        self.flags = 0
