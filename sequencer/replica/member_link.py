"""One connection of a member, as the coordinator sees it: what was sent, and what may be sent."""

from collections import deque

from sequencer.replica.copy_pace import CopyPace
from sequencer.replica.member_messages import Hello


class MemberLink:
    """Written by the reign. A member has one; its next HELLO replaces it."""

    def __init__(
        self, connection: int, hello: Hello, common: int, note_common: int, burst: int
    ) -> None:
        self.connection = connection
        self.member = hello.member
        self.run = hello.run
        self.protocols = hello.protocols
        self.sent = self.acknowledged = common
        self.note_sent = note_common
        self.watermark = self.note_watermark = 0  # the last ones it was told
        self.in_flight: deque[tuple[int, int]] = deque()  # last number, bytes: not acknowledged
        self.bytes = 0  # in flight
        self.pace = CopyPace(burst)
        self.level_at = -1  # bytes that the reign had written when all of it was sent; -1: never
        self.is_read = False  # what it needs next is being read from the disk
        self.is_leaving = False
        self.near_since = 0.0  # when it came close to the head; 0: it is not
        self.held: deque[tuple[bytes | memoryview, float]] = deque()  # FORWARDs not taken, and when

    def has(self, last: int, note_last: int, watermark: int, note_watermark: int) -> bool:
        """Whether it was sent all of this."""
        return (
            self.sent == last
            and self.watermark == watermark
            and self.note_sent == note_last
            and self.note_watermark == note_watermark
            and self.level_at >= 0
        )

    def add(self, last: int, size: int) -> None:
        """These are sent."""
        self.sent = last
        self.in_flight.append((last, size))
        self.pace.spend(size)
        self.bytes += size

    def acknowledge(self, number: int) -> None:
        """It has everything up to here."""
        self.acknowledged = max(self.acknowledged, number)
        while self.in_flight and self.in_flight[0][0] <= number:
            self.bytes -= self.in_flight.popleft()[1]
