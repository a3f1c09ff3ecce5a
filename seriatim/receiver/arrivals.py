"""Reads a socket: many datagrams with one system call.

    read(order, codec, now, feed)   all that wait, decoded and offered; how many datagrams
    datagrams()                     all that wait, as they came

Both stop after a few thousand, so that other work of the same thread gets its turn. Datagrams that
the codec cannot read are counted, and `fault` says why: anyone can send one.
"""

from typing import Any

import cython

from sequencer.feed.feed_codec import Codec, Packet
from seriatim.receiver.order import Order

if not cython.compiled:
    from sequencer.feed.feed_codec import packet_of

    SLOTS = 32
    SLOT_BYTES = 65536
    EAGAIN = 11
    ROUNDS = 8  # system calls in one turn

SO_RXQ_OVFL = 40
RUNS = cython.compiled  # runs of datagrams are supported here: UDP_GRO may be set


class Arrivals:
    """The reader of one non-blocking socket. Memory: 2 MiB, of which only used pages count."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.fd = socket.fileno()
        self.buffer = bytearray(SLOTS * SLOT_BYTES if cython.compiled else 0)
        self.data = self.buffer
        self.got = 0  # slots filled
        self.count = 0  # datagrams so far
        self.malformed = 0
        self.fault = ""
        self.error = 0  # why the socket gave nothing; 0 if it was only empty
        self.drops = 0  # dropped by the kernel for lack of room
        self.slots: list[tuple[bytes, int]] = []  # in the uncompiled build

    def read(self, order: Order, codec: Codec, now: float, feed: int) -> int:
        """Decode the waiting datagrams and offer them to the order; return how many there were."""
        before = self.count
        for _ in range(ROUNDS):
            self._receive()
            for slot in range(self.got):
                self._read_slot(slot, order, codec, now, feed)
            if self.got < SLOTS:
                break
        return self.count - before

    def datagrams(self) -> list[bytes]:
        """Return the waiting datagrams, one by one."""
        found: list[bytes] = []
        for _ in range(ROUNDS):
            self._receive()
            for slot in range(self.got):
                at, size = 0, self._size(slot)
                while True:
                    found.append(self._datagram(slot, at, size))
                    self.count += 1
                    at += self._part(slot)
                    if at >= size:
                        break
            if self.got < SLOTS:
                break
        return found

    def _read_slot(self, slot: int, order: Order, codec: Codec, now: float, feed: int) -> int:
        at, size = 0, self._size(slot)
        while True:
            self.count += 1
            try:
                packet: Packet = packet_of(codec, self._datagram(slot, at, size))
            # the codec may be the user's own; the next datagram may be good
            except Exception as error:
                self.malformed += 1
                self.fault = f"{type(error).__name__}: {error}"
            else:
                order.offer(packet, now, feed, self._source(slot))
            at += self._part(slot)
            if at >= size:
                return 0

    def _datagram(self, slot: int, at: int, size: int) -> bytes:
        """Return the datagram that begins at `at` of a slot of `size` bytes."""
        if cython.compiled:
            start = slot * SLOT_BYTES
            return self.data[start + at : start + min(size, at + self._part(slot))]
        else:
            return self.slots[slot][0]

    def _size(self, slot: int) -> int:
        if cython.compiled:
            return self.sizes[slot]
        else:
            return len(self.slots[slot][0])

    def _part(self, slot: int) -> int:
        """Return the size of the datagrams in a slot."""
        if cython.compiled:
            return self.parts[slot] if self.parts[slot] > 0 else SLOT_BYTES
        else:
            return SLOT_BYTES

    def _source(self, slot: int) -> int:
        if cython.compiled:
            return self.sources[slot]
        else:
            return self.slots[slot][1]

    def _receive(self) -> int:
        """Fill the slots with waiting datagrams."""
        if cython.compiled:
            self.got = arrivals_receive(
                self.fd,
                self.data,
                self.sizes,
                self.parts,
                self.sources,
                cython.address(self.drops),
                cython.address(self.error),
            )
            if self.got < 0:
                self.got = 0
                if self.error == EAGAIN:
                    self.error = 0
        else:
            self.slots = []
            self.error = 0
            while len(self.slots) < SLOTS and self._receive_one():
                pass
            self.got = len(self.slots)
        return 0

    def _receive_one(self) -> bool:
        try:
            datagram, said, _, sender = self.socket.recvmsg(SLOT_BYTES, 64)
        except BlockingIOError:
            return False
        except OSError as error:
            self.error = error.errno or 0
            return False
        for _, kind, value in said:
            if kind == SO_RXQ_OVFL:
                self.drops = int.from_bytes(value, "little")
        self.slots.append((datagram, hash(sender) | 1))
        return True
