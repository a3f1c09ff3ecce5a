r"""A message, as positions in a buffer: nothing is copied to make one.

    PUB orders.new _INBOX.7 11\r\nhello world\r\n
        ^subject   ^reply   ^digits
                                  ^body = payload

A span is `(data, start, size)` in both builds. `data` is a pointer when compiled, and the buffer
itself otherwise; `data[subject : subject + subject_size]` is the subject in both. `subject_data`
differs from `data` only if the message goes out under another subject than it came with.

A `Message` has no methods. The part that finds a message fills one and passes it on: the data plane
from what a client sent, the cquencer port from a netstring. `Walk` is a Message that finds its
own spans in the journal. The same object is filled again for the next message, so code that
keeps a part must copy it.
"""

import cython


class Message:
    """The spans of one message, and what the sequencer adds: number and time."""

    def __init__(self) -> None:
        self.buffer: bytes | bytearray = b""  # owns what `data` points to
        if not cython.compiled:
            self.data: bytes | bytearray = b""
            self.subject_data: bytes | bytearray = b""
        self.subject = self.subject_size = 0
        self.reply = self.reply_size = 0  # size 0: it has none
        self.body = self.size = 0  # headers and payload
        self.header_size = self.payload = self.payload_size = 0
        self.digits = self.digits_end = 0  # `size` as the publisher wrote it; empty: not known
        self.header_digits = self.header_digits_end = 0  # the same for `header_size`
        self.mentions_nats = False  # the headers may include one of NATS' own
        self.number = 0  # 0: it has none
        self.time = 0  # ns since 1970
        self.origin = self.origin_sequence = 0  # the publisher, and its count of messages
        self.flags = 0
