"""Staged operations: checked when they arrive, published when they are committed.

    check(parser, buffer, at, stop)      whole rows, each of which PUB would number; or BAD
    publish(parser, buffer, at, stop, origin, nth, most)
                                        as many of them as one turn allows, through the plane
    pass_over(parser, buffer, at, stop, rows)    skip rows that are published already

A row is a PUB or an HPUB. All three walk a buffer with the parser of the stage, which continues
where the bytes before ended: `parser.at` is where the unserved rest begins.
"""

import cython

from broker.dataplane.guard import Guard
from broker.dataplane.kinds import is_reserved_reply
from broker.dataplane.plane import Plane
from broker.dataplane.traced import is_trace_only
from parser.errors import ControlLineTooLong, PayloadTooLarge, shown
from parser.machine import Parser
from sequencer.message import Message
from sublist.sublist import Sublist

if not cython.compiled:
    from broker.dataplane.kinds import DEEP, EXCLUDED, ORDINARY, UNMATCHABLE
    from broker.dataplane.plane import describe
    from broker.dataplane.reply_publisher import is_plain_reply
    from parser.ops import FAULT, HPUB, MORE, PUB

    BAD = -1
    ROW_WORK = 16  # cost of a row besides its deliveries, in offers: 15 000 in a turn, about 2 ms
    BYTES_SHIFT = 7  # plus one for each 128 bytes of it

SHOWN_MAX = 80  # bytes of a subject quoted in an error


class Staged:
    """The checker and publisher of staged rows. One per broker, for its one thread."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.sublist: Sublist = self.plane.sublist
        self.message = Message()  # the row that is being published
        self.trusts = False  # another member has checked the rows, and its limits count
        self.row = 0  # where `check` stopped, counted from 1
        self.problem = ""  # why that row was refused
        self.forbidden = False  # its publisher has no right to it
        self.at = 0  # where `publish` continues
        self.ended = False  # `publish` has reached the end of the whole rows
        self.full = False  # the journal had no room for that row

    def check(
        self, parser: Parser, buffer: bytearray, at: int, stop: int, guard: Guard | None = None
    ) -> int:
        """Return how many rows of `buffer[at:stop]` are whole; BAD if one is wrong (`problem`).

        `guard`: the publisher's permissions; `forbidden` is set for a row that they do not allow.
        """
        self.forbidden = False
        parser.attach(buffer, at, stop)
        data = buffer
        rows = 0
        while True:
            op = parser.next()
            if op == MORE:
                return rows
            if op != PUB and op != HPUB:
                return self._refuse(rows, _fault_of(parser, op))
            size = parser.subject_end - parser.subject
            route = self.sublist.find(data, parser.subject, size)
            if route.kind != ORDINARY and not (self.trusts and route.kind == DEEP):
                return self._refuse_subject(rows, route.subject, route.kind)
            if guard is not None and not guard.may_publish(route):
                return self._forbid(rows, route.subject)
            size = parser.reply_end - parser.reply
            plain = parser.reply_end == 0 or is_plain_reply(data, parser.reply, size)
            if not plain and self._is_reserved(rows, parser):
                return BAD
            if op == HPUB and (self._is_trace_only(rows, parser) or self._is_guarded(rows, parser)):
                return BAD
            rows += 1

    def publish(
        self,
        parser: Parser,
        buffer: bytearray,
        at: int,
        stop: int,
        origin: int,
        nth: int,
        most: int,
    ) -> int:
        """Publish `most` rows of `buffer[at:stop]`, the first as the `nth` of `origin`.

        Returns how many; BAD for an operation that is no row. Call `Gate.release` afterwards.
        """
        plane, message = self.plane, self.message
        message.buffer = buffer
        message.data = buffer
        message.origin = origin
        plane.begin_turn()
        parser.attach(buffer, at, stop)
        self.full = self.ended = False
        rows = 0
        while rows < most:
            begin = parser.at
            state = parser.state  # needed if the buffer begins after a verb
            op = parser.next()
            if op == MORE:
                self.ended = True
                break
            if op != PUB and op != HPUB:
                return BAD
            header_size = parser.header_size if op == HPUB else 0
            plane.charge_work(ROW_WORK + (parser.size >> BYTES_SHIFT))
            describe(message, parser, header_size)
            message.origin_sequence = nth + rows
            route = self.sublist.find(message.data, message.subject, message.subject_size)
            if plane.submit(message, route) == 0:
                self.full = True
                parser.attach(buffer, begin, stop)
                parser.state = state
                break
            rows += 1
            if plane.is_spent():
                break
        self.at = parser.at
        return rows

    def pass_over(self, parser: Parser, buffer: bytearray, at: int, stop: int, rows: int) -> int:
        """Skip `rows` rows, or as many as are here; return how many, or BAD as `publish` does."""
        parser.attach(buffer, at, stop)
        passed = 0
        while passed < rows:
            op = parser.next()
            if op == MORE:
                break
            if op != PUB and op != HPUB:
                return BAD
            passed += 1
        self.at = parser.at
        return passed

    def _refuse(self, rows: int, why: str) -> int:
        """Refuse the row after the first `rows`."""
        self.row = rows + 1
        self.problem = why
        return BAD

    def _forbid(self, rows: int, subject: bytes) -> int:
        """Refuse a row that its publisher has no right to."""
        self.forbidden = True
        return self._refuse(rows, f"you may not publish to {shown(subject, SHOWN_MAX)}")

    def _is_reserved(self, rows: int, parser: Parser) -> bool:
        """Refuse the current row if its reply is reserved; return True if so."""
        reply = bytes(parser.buffer[parser.reply : parser.reply_end])
        if not is_reserved_reply(reply):
            return False
        self._refuse(rows, f"the reply {shown(reply, SHOWN_MAX)} is a reserved subject")
        return True

    def _is_trace_only(self, rows: int, parser: Parser) -> bool:
        """Refuse the current row if it asks for a trace only: it would get no number."""
        if not parser.mentions(b"Nats-Trace-Dest", 15):
            return False
        end = parser.body + parser.header_size
        if not is_trace_only(bytes(parser.buffer[parser.body : end])):
            return False
        self._refuse(rows, "has Nats-Trace-Only, so it would get no number")
        return True

    def _is_guarded(self, rows: int, parser: Parser) -> bool:
        """Refuse the current row if it says what must hold when it is published.

        A promised batch is published as a whole: nothing in it can be refused any more.
        """
        if not parser.mentions(b"\nNats-Expected-", 15):
            return False
        self._refuse(rows, "has a Nats-Expected- header, which a row of a batch cannot obey")
        return True

    def _refuse_subject(self, rows: int, subject: bytes, kind: int) -> int:
        why = "cannot be published to"
        if kind == EXCLUDED:
            why = "is excluded from sequencing"
        elif kind == DEEP:
            why += ": it has too many tokens (limits.max_subject_tokens)"
        elif kind == UNMATCHABLE:
            why += ": it has an empty token, so no subscription could match it"
        return self._refuse(rows, f"{shown(subject, SHOWN_MAX)} {why}")


def _fault_of(parser: Parser, op: int) -> str:
    if op != FAULT:
        return "is not a PUB or an HPUB"
    fault = parser.fault
    if isinstance(fault, PayloadTooLarge):
        return f"{fault}; max_payload is {parser.max_payload}"
    if isinstance(fault, ControlLineTooLong):
        return f"{fault}; max_control_line is {parser.max_control_line}"
    return str(fault)
