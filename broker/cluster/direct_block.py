r"""Messages without a number as one member passes them on to another: whole ones, in their order.

    subject u16   reply u16   groups u16   zero u16   headers u32   size u32   key u64
    groups times: member u64, length u16, name       subject   reply   headers and payload

Little-endian. `groups`: the queue groups that get the message, each with the member that serves it.
`key`: the sender asks how many clients got it; 0: it does not.
"""

import struct

import cython

from sequencer.message import Message
from sequencer.replica.errors import BadRecords

HEAD = struct.Struct("<HHHHIIQ")
GROUP = struct.Struct("<QH")

if not cython.compiled:
    HEAD_SIZE = 24
    GROUP_SIZE = 10


class DirectBlock:
    """A block that a member fills in one turn, for all other members."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, message: Message, key: int, groups: int, chosen: bytes) -> int:
        """Add a message. `chosen`: its `groups` queue groups, as `packed_group` gives them."""
        buffer = message.buffer
        sizes = message.subject_size, message.reply_size, groups, 0
        self.data += HEAD.pack(*sizes, message.header_size, message.size, key)
        self.data += chosen
        self.data += buffer[message.subject : message.subject + message.subject_size]
        self.data += buffer[message.reply : message.reply + message.reply_size]
        self.data += buffer[message.body : message.body + message.size]
        return 0

    def take(self) -> bytearray:
        """Return what was added, and begin a new block."""
        data, self.data = self.data, bytearray()
        return data


def packed_group(member: int, group: bytes) -> bytes:
    """Pack the name of a queue group, and the id of the member that serves it."""
    return GROUP.pack(member, len(group)) + group


class DirectWalk(Message):
    """A walk over a block of another member: it is each of the messages in turn."""

    def __init__(self, member: int) -> None:
        """`member`: the id of this one."""
        super().__init__()
        self.member = member
        self.at = self.stop = 0
        self.key = 0
        self.groups: list[bytes] = []  # those that this member serves

    def attach(self, data: bytes, at: int) -> None:
        """Begin at a message of the block."""
        self.buffer = data
        self.data = data
        self.subject_data = data
        self.at = at
        self.stop = len(data)

    def next(self) -> bool:
        """Become the next message; False: there is none. Raises `BadRecords`."""
        if self.at == self.stop:
            return False
        if self.stop - self.at < HEAD_SIZE:
            raise BadRecords(f"{self.stop - self.at} bytes are no direct message")
        sizes = HEAD.unpack_from(self.buffer, self.at)
        subject, reply, groups, zero, headers, size, self.key = sizes
        at = self.at + HEAD_SIZE
        self.groups = []
        for _ in range(groups):
            at = self._group(at)
        end = at + subject + reply + size
        if zero or not subject or headers > size or end > self.stop:
            raise BadRecords(f"a direct message of {end - self.at} bytes is none: {sizes}")
        self.subject = at
        self.subject_size = subject
        self.reply = at + subject
        self.reply_size = reply
        self.body = at + subject + reply
        self.size = size
        self.header_size = headers
        self.payload = self.body + headers
        self.payload_size = size - headers
        self.at = end
        return True

    def _group(self, at: int) -> int:
        """Read a queue group; return where the next one begins."""
        if self.stop - at < GROUP_SIZE:
            raise BadRecords("a direct message ends within its queue groups")
        member, size = GROUP.unpack_from(self.buffer, at)
        end: int = at + GROUP_SIZE + size
        if end > self.stop:
            raise BadRecords("a direct message ends within the name of a queue group")
        if member == self.member:
            self.groups.append(bytes(self.buffer[at + GROUP_SIZE : end]))
        return end
