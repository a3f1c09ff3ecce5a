"""A message in the journal: the layout of a record, batches to write, and a walk to read.

     0 crc u32       CRC-32C of all that follows, with padding; its seed is the store's salt
     4 length u32    of the record, without the zeros that pad it to a multiple of 8
     8 number u64    16 time u64 (ns)    24 origin u64    32 origin's own sequence u64
    40 epoch u32     44 flags u16        46 subject size u16   48 reply size u16   50 zero u16
    52 headers' size u32
    56 subject, reply, headers, payload

Little-endian; docs/journal-format.md says what each field is for. The salt is a secret of the
store. So when a damaged segment is searched for its next good record, a payload that looks like
a record is not taken for one.

`RecordBatch` holds the records of a turn until they are written, or moves them to their target
in the journal. `Walk` gives spans of the buffer it walks, without an object per record.
"""

# Theory of operation
#
# A record is meant to be read where it lies. Each begins at a multiple of 8, and each field at a
# multiple of its own size, so the compiled code casts the bytes to a struct (`Head` in record.pxd).
# Neither writing nor reading allocates anything for a record there.
#
# Two layouts of a batch. The first one is for a journal without a window (the ring in memory), for
# the copies of a cluster's forward table, and for a batch that is too long for a slab:
#
#     own    | record | record | record | free     |      it grows; `view` is own[begin:end],
#            ^ begin  sealed ^          ^ end      ^ size  and the journal copies it in `write`
#
# After `set_target`, the records end up in the journal's own memory, and are only committed there:
#
#     own      | record | record | free |         32 KiB: it stays in the processor's cache
#                                  |
#                                  | `_move`, when it is full, and at `seal`
#                                  v
#     journal  | ... records | moved  |        |     the active slab of the window
#                            ^        ^ at           `view` is journal[at - moved:at]
#                            where the batch began
#
# The detour through `own` is the fast way. The journal's memory is read next by the disk; if the
# records were composed there, each line of it would be fetched into the cache first, and push out
# what the next message needs. `stream_copy` writes past the cache. A record that is longer than
# `own` is composed in the journal all the same (`in_journal`): copying it twice would cost more.
# What lies in the journal does not count before `Store.commit`; a kill in between loses nothing
# that anyone has seen.
#
# Checksums are added late, in `seal`: one call for all the records of a buffer. `sealed` is the end
# of those that have theirs. The uncompiled build computes each in `put`; it has nothing to gain.
#
# A `Walk` trusts the bytes as little as it is told to:
#
#     next     bounds and the CRC                     for what is delivered
#     skim     bounds only                            to find a position that is checked later
#     find     the same                               to find a number
#     seek     bounds; numbers are consecutive        to skip: a wrong length leads to bytes that
#     stretch  the same, and the epoch is the same    do not have the next number
#     advance  as `next`; each like the one before    to check millions in one call
#
# The length is under the CRC, but the CRC's span follows from the length. So a damaged length gives
# BAD in one of two ways: it is out of bounds, or the checksum of the wrong span does not match. The
# only other answer is MORE: it points past the end. The caller then reads more, or knows that this
# is the end of the file, and treats the rest as torn.

import struct

import cython

from sequencer.message import Message

if cython.compiled:
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER
else:
    from sequencer.journal.crc import crc32c
    from sequencer.journal.layout import BAD, HEADER_SIZE, ID_FLAG, LENGTH_MAX, MORE, RECORD

    BUFFER_MIN = 1 << 15
    BUFFER_MAX = 1 << 20  # kept from one batch to the next

HEAD = struct.Struct("<IIQQQQIHHHHI")


def record_size(subject_size: int, reply_size: int, size: int) -> int:
    """The bytes that a record takes; `size` is that of headers and payload together."""
    return (HEADER_SIZE + subject_size + reply_size + size + 7) & ~7


class RecordBatch:
    """Records one after another, in the order of their numbers; `first` is 0 if there are none.

    They are composed in the batch's own `buffer[begin:end]`. If `set_target` gave the batch memory
    in the journal, they move there whenever the buffer is full: it is so small that it stays in
    the processor's own cache. A longer record is composed in the journal itself.
    """

    def __init__(self, salt: int, epoch: int, checked: bool = True) -> None:
        self.salt = salt
        self.epoch = epoch
        self.checked = checked  # False: no checksums, for records that never leave this process
        self.own = bytearray(BUFFER_MIN)
        self.buffer: bytearray | memoryview = self.own
        self.data: bytearray | memoryview = self.own
        self.size = len(self.own)
        self.has_target = False  # the records go into memory of the journal
        self.journal: memoryview | None = None  # its memory
        self.into: bytearray | memoryview = self.own  # the same, once there is one
        self.at = 0  # where the next moved record goes in it
        self.moved = 0  # bytes already moved there
        self.in_journal = False  # the newest record is so long that it is composed there
        self.begin = self.end = 0
        self.sealed = 0  # the records before it have their checksums
        self.first = self.last = 0
        self.time = 0  # of the first record
        self.ids = False  # one of the records has ID_FLAG
        # Number and place of the first record of each move but the first: marks for the index.
        self.marks: list[tuple[int, int]] = []
        self.moved_last = 0  # the number of the last moved record

    def set_target(self, buffer: memoryview | None, at: int = 0) -> int:
        """Put the next records into this memory, from `at` on; None: into the batch's own buffer.

        The batch must be empty. The caller ensures that there is room for what is put.
        """
        assert self.waiting() == 0, "nothing waits to be written"
        self.has_target = buffer is not None
        self.journal = buffer
        self.at = at
        if buffer is None:
            self._adopt(self.own)
        else:
            if cython.compiled:
                self.into = cython.cast("unsigned char *", PyMemoryView_GET_BUFFER(buffer).buf)
            else:
                self.into = buffer
            if len(self.own) > BUFFER_MIN:
                self.own = bytearray(BUFFER_MIN)
            self._compose_in_own()
        self.begin = self.end = self.sealed = 0
        return 0

    def waiting(self) -> int:
        """The bytes of all records."""
        return self.moved + self.end - self.begin

    def put(self, message: Message, most: int) -> int:
        """Append a message; return its record's size. Above `most`, append nothing and return 0."""
        subject_size, reply_size, size = message.subject_size, message.reply_size, message.size
        length = HEADER_SIZE + subject_size + reply_size + size
        padded = (length + 7) & ~7
        if padded > most:
            return 0
        if self.size - self.end < padded:
            self._make_room(padded)
        if cython.compiled:
            to = self.data + self.end
            # The last word first: the padding is under the checksum, and must be zero. What the
            # record needs of this word is written over it below.
            cython.cast("unsigned long long *", to + padded - 8)[0] = 0
            head = cython.cast("Head *", to)
            head.crc = 0
            head.length = length
            head.number = message.number
            head.time = message.time
            head.origin = message.origin
            head.origin_sequence = message.origin_sequence
            head.epoch = self.epoch
            head.flags = message.flags
            head.subject_size = subject_size
            head.reply_size = reply_size
            head.zero = 0
            head.header_size = message.header_size
            to += HEADER_SIZE
            copy_span(to, message.subject_data + message.subject, subject_size)
            to += subject_size
            if reply_size:
                copy_span(to, message.data + message.reply, reply_size)
                to += reply_size
            copy_span(to, message.data + message.body, size)
        else:
            who = (message.origin, message.origin_sequence, self.epoch, message.flags)
            sizes = (subject_size, reply_size, 0, message.header_size)
            head = HEAD.pack(0, length, message.number, message.time, *who, *sizes)
            record = head[4:]
            record += message.subject_data[message.subject : message.subject + subject_size]
            record += message.data[message.reply : message.reply + reply_size]
            record += message.data[message.body : message.body + size]
            record = record.ljust(padded - 4, b"\0")
            crc = crc32c(record, self.salt) if self.checked else 0
            self.data[self.end : self.end + padded] = struct.pack("<I", crc) + record
        if self.first == 0:
            self.first = message.number
            self.time = message.time
        self.last = message.number
        self.end += padded
        if message.flags & ID_FLAG:
            self.ids = True
        return padded

    def append_message(
        self,
        number: int,
        time: int,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
        origin: int = 0,
        origin_sequence: int = 0,
        flags: int = 0,
    ) -> int:
        """Append a message given as bytes."""
        message = Message()
        parts = subject + reply + headers + payload
        message.buffer = parts
        message.data = message.subject_data = parts
        message.subject_size = len(subject)
        message.reply = message.subject_size
        message.reply_size = len(reply)
        message.body = message.reply + message.reply_size
        message.header_size = len(headers)
        message.size = len(headers) + len(payload)
        message.number = number
        message.time = time
        message.origin = origin
        message.origin_sequence = origin_sequence
        message.flags = flags
        size = self.put(message, LENGTH_MAX)
        assert size, "a record has a greatest length"
        return 0

    def seal(self) -> int:
        """Add checksums to the records, and move them to their target; return their total size."""
        if cython.compiled and self.checked:
            crc32c_seal(self.data + self.sealed, self.end - self.sealed, self.salt)
            self.sealed = self.end
        if self.has_target:
            self._move()
        return self.waiting()

    def view(self) -> memoryview:
        """Return a view of the records; release it before the next `put`."""
        self.seal()
        if self.has_target:
            assert self.journal is not None, "it was given"
            return self.journal[self.at - self.moved : self.at]
        return memoryview(self.buffer)[self.begin : self.end]

    def clear(self) -> None:
        """Forget the records, and free the room that only an unusual batch needed."""
        if self.in_journal:
            self._compose_in_own()
        self.begin = self.end = self.sealed = self.moved = 0
        self.first = self.last = self.time = 0
        self.ids = False
        if self.marks:
            self.marks = []
        if not self.has_target and self.size > BUFFER_MAX:
            self.own = bytearray(BUFFER_MIN)
            self._adopt(self.own)

    def _move(self) -> int:
        """Move the composed, sealed records to their target in the journal."""
        size = self.end - self.begin
        if self.moved and size:
            self.marks.append((self.moved_last + 1, self.moved))
        self.moved_last = self.last
        if self.in_journal:  # it is in its place already: only the positions move on
            self._compose_in_own()
        elif cython.compiled:
            stream_copy(self.into + self.at, self.data, size)
        else:
            self.into[self.at : self.at + size] = self.data[:size]
        self.at += size
        self.moved += size
        self.begin = self.end = self.sealed = 0
        return 0

    def _compose_in_own(self) -> int:
        """Compose the next records in the batch's own buffer."""
        self.in_journal = False
        return self._adopt(self.own)

    def _make_room(self, need: int) -> int:
        if not self.has_target:
            return self._grow(need)
        self.seal()
        # `own` is empty now. If it is still too short, this record goes to the journal directly;
        # `size` then ends with it, so that the next `put` comes here and goes back to `own`.
        if need > self.size:
            self.in_journal = True
            self.data = self.into
            self.begin = self.end = self.sealed = self.at
            self.size = self.at + need
        return 0

    def _grow(self, need: int) -> int:
        size = self.size
        while size < self.end + need:
            size *= 2
        buffer = bytearray(size)
        memoryview(buffer)[: self.end] = memoryview(self.buffer)[: self.end]
        self.own = buffer
        return self._adopt(buffer)

    def _adopt(self, buffer: bytearray) -> int:
        self.buffer = buffer
        self.data = buffer
        self.size = len(buffer)
        return 0


class Walk(Message):
    """Walks from record to record; it is itself the Message of the current record."""

    def __init__(self, salt: int, checked: bool = True) -> None:
        super().__init__()
        self.salt = salt
        self.checked = checked  # whether `next` verifies checksums
        self.stop = self.at = self.after = 0
        self.epoch = 0

    def attach(self, buffer: bytes | bytearray | memoryview, at: int, stop: int) -> int:
        """Begin to walk `buffer[at:stop]`. Keeps the buffer, which must not change meanwhile."""
        assert 0 <= at <= stop <= len(buffer), "a span of the buffer"
        if isinstance(buffer, bytearray):
            self.buffer = buffer
            self.data = cython.cast(bytearray, buffer)
        elif isinstance(buffer, bytes):
            self.buffer = buffer
            self.data = cython.cast(bytes, buffer)
        else:
            self._attach_view(buffer)
        self.subject_data = self.data
        self.stop = stop
        self.at = self.after = at
        return 0

    def _attach_view(self, view: memoryview) -> None:
        assert isinstance(view, memoryview), "a buffer"
        assert view.c_contiguous, "bytes in a row"
        assert view.itemsize == 1, "bytes in a row"
        if cython.compiled:
            self.buffer = view
            self.data = cython.cast("const unsigned char *", PyMemoryView_GET_BUFFER(view).buf)
        else:
            self.buffer = self.data = bytes(view)

    def next(self) -> int:
        """Go to the next record: RECORD. MORE: the bytes end too early. BAD: the record is invalid.

        After MORE and BAD, `at` is where the record would begin; calling again changes nothing.
        """
        return self._read(self.checked)

    def skim(self) -> int:
        """Like `next`, but without the checksum, for callers that look for a later record."""
        return self._read(False)

    def find(self, number: int) -> int:
        """Like `skim`, until the record of this number, or a later one."""
        state = self._read(False)
        while state == RECORD and self.number < number:
            state = self._read(False)
        return state

    def seek(self, number: int) -> int:
        """Skip records before `number` without checking them.

        A record is skipped only if the next number follows it, because a damaged length would
        lead elsewhere. So `next` still finds what is damaged.
        """
        last, before = self.after, 0
        while self._read(False) == RECORD:
            follows = self.number == before + 1
            if self.number >= number or (before and not follows):
                if before and follows:
                    last = self.at
                break
            last, before = self.at, self.number
        self.after = last
        return 0

    def stretch(self, most: int) -> int:
        """Go on from the current record while numbers are consecutive, and of the same epoch.

        At most `most` bytes, with the current record, and nothing is checked. Returns the last
        number; `after` is its end.
        """
        begin, last, epoch = self.at, self.number, self.epoch
        end = self.after
        while self._read(False) == RECORD and self.after - begin <= most:
            if self.number != last + 1 or self.epoch != epoch:
                break
            end, last = self.after, self.number
        self.after = end
        return last

    def advance(self, limit: int, stop: int) -> int:
        """Go on from the current record over valid ones like it; the last of them is current then.

        Like it: consecutive numbers before `limit`, no earlier time, the same epoch and flags. None
        begins at `stop` or after. What `next` finds then is for the caller to judge.
        """
        at, end, number, time = self.at, self.after, self.number, self.time
        epoch, flags = self.epoch, self.flags
        while end < stop and number + 1 < limit and self._read(self.checked) == RECORD:
            if self.number != number + 1 or self.time < time:
                break
            if self.epoch != epoch or self.flags != flags:
                break
            at, end, number, time = self.at, self.after, self.number, self.time
        if self.at != at:  # the last one read is not like them
            self.after = at
            self._read(False)
        return 0

    def _read(self, check: bool) -> int:
        self.at = self.after
        left = self.stop - self.at
        if left < HEADER_SIZE:
            return MORE
        if cython.compiled:
            head = cython.cast("const Head *", self.data + self.at)
            length = head.length
            self.number = head.number
            self.time = head.time
            self.origin = head.origin
            self.origin_sequence = head.origin_sequence
            self.epoch = head.epoch
            self.flags = head.flags
            self.subject_size = head.subject_size
            self.reply_size = head.reply_size
            self.header_size = head.header_size
            crc = head.crc
        else:
            fields = HEAD.unpack_from(self.buffer, self.at)
            crc, length, self.number, self.time, self.origin, self.origin_sequence = fields[:6]
            self.epoch, self.flags, self.subject_size, self.reply_size, _, self.header_size = (
                fields[6:]
            )
        self.subject = self.at + HEADER_SIZE
        self.reply = self.subject + self.subject_size
        self.body = self.reply + self.reply_size
        self.size = self.at + length - self.body
        self.payload = self.body + self.header_size
        self.payload_size = self.size - self.header_size
        # Before the CRC: nothing else bounds what it reads. `payload_size` shows if the sizes of
        # the parts add up to more than the record, as all of them are subtracted from its length.
        if length > LENGTH_MAX or length < HEADER_SIZE or self.payload_size < 0:
            return BAD
        padded = (length + 7) & ~7
        if padded > left:
            return MORE
        if check:
            if cython.compiled:
                if crc != crc32c_extend(self.salt, self.data + self.at + 4, padded - 4):
                    return BAD
            else:
                record = memoryview(self.buffer)[self.at + 4 : self.at + padded]
                if crc != crc32c(record, self.salt):
                    return BAD
        self.after = self.at + padded
        return RECORD


if cython.compiled:
    crc32c_choose(0)
