"""Replaying: everything kept, read by one subscriber as fast as the server sends it."""

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.keepers import Course, Keeper, keeper_of
from benchmarks.load import CHECKED_BYTES, STRAY_PINGS_MAX
from benchmarks.process import ServerProcess
from benchmarks.sample import Sample
from benchmarks.scenarios import Replaying
from benchmarks.servers import Server
from benchmarks.storing import Clock, fill
from benchmarks.wire import PING, from_next_message, payload_of


def run_replaying(replaying: Replaying, server: Server) -> Sample:
    """Run `replaying` once on a fresh process of `server`."""
    payload = payload_of(replaying.size)
    keeper = keeper_of(server)
    with ServerProcess(server) as process:
        with Connection(process.port) as control:
            keeper.begin(control)
            fill(keeper, control, payload, replaying.messages)
        course = keeper.course(payload, replaying.messages)
        with Connection(process.port) as connection:
            connection.settle()
            clock = Clock(process)
            intake = Intake(connection, course)
            intake.run()
            clock.stop()
        intake.verify(keeper, payload, replaying.messages)
        return clock.sample(replaying.messages, replaying.messages)


class Intake:
    """The reader of a replay: counts bytes, and keeps both ends to be checked.

    A PING of the server's may arrive among the messages. So the end is not a count of bytes but the
    last message.
    """

    def __init__(self, connection: Connection, course: Course) -> None:
        self.connection = connection
        self.course = course
        self.received = 0
        self.head = self.tail = b""

    def run(self) -> None:
        """Read to the end."""
        self.connection.send(self.course.opening)
        untailed = max(0, self.course.length - CHECKED_BYTES)
        while len(self.head) < min(untailed, CHECKED_BYTES):
            self.head += self.connection.receive(CHECKED_BYTES - len(self.head))
        self.received = len(self.head)
        scratch = bytearray(1 << 20)
        while self.received < untailed:
            self.received += self.connection.discard(scratch, untailed - self.received)
        while self.course.last not in self.tail:
            chunk = self.connection.receive()
            self.tail += chunk
            self.received += len(chunk)

    def verify(self, keeper: Keeper, payload: bytes, messages: int) -> None:
        """Raise unless exactly the right bytes arrived."""
        stray, rest = divmod(self.received - self.course.length, len(PING))
        if rest or not 0 <= stray <= STRAY_PINGS_MAX:
            raise BenchmarkError(f"{self.received} bytes came, expected {self.course.length}")
        if not self.head:
            numbers = keeper.replayed(self.tail, payload)
            if numbers != list(range(1, messages + 1)):
                raise BenchmarkError(f"not 1 to {messages} came, but {numbers[:9]} ...")
            return
        first = keeper.replayed(self.head, payload)
        last = keeper.replayed(from_next_message(self.tail), payload)
        if first != list(range(1, len(first) + 1)):
            raise BenchmarkError(f"the first numbers are {first[:9]} ...")
        if not last or last != list(range(messages + 1 - len(last), messages + 1)):
            raise BenchmarkError(f"the last numbers are ... {last[-9:]}, not up to {messages}")
