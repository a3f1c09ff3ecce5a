"""The publishers of a benchmark: one that waits for no answers, and two that count them.

The plain one sends large pieces of ready messages. The others use the asyncio client as a program
would: Seriatim answers with a number, JetStream with a pub ack. So many messages are in flight at
once, and the time from when a message was to be sent until its answer came is its latency.
"""

import asyncio
import json
import selectors
import signal
import time
from typing import Final

from seriatim.bench.latency_table import LatencyTable
from seriatim.bench.message_block import KEY_BYTES, MessageBlock, key_of, payload_of
from seriatim.cli.bench.bench_connection import bench_connection
from seriatim.cli.bench.bench_plan import BenchPlan
from seriatim.cli.bench.bench_process import Work, WorkerPost, WorkerReport
from seriatim.cli.bench.pacing import SendPace
from seriatim.cli.errors import CliError
from seriatim.cli.pubsub.broker_client import CommandConnection, connected
from seriatim.client.errors import BrokerError, Refused
from seriatim.client.stream_client import Client
from seriatim.client.stream_message import Message

NOTE_EVERY: Final = 256  # messages
SLEEP_MAX: Final = 0.1  # seconds; then the broker's PINGs are answered


def publish_plainly(plan: BenchPlan, run: int, index: int) -> Work:
    """Return the work of publisher `index`."""

    def work(post: WorkerPost, report: WorkerReport) -> None:
        block = MessageBlock(plan.subject_names(), plan.size, key_of(run, index))
        with bench_connection(plan, f"publisher {index + 1}") as connection:
            connection.flush()
            pace = SendPace.of(plan, index, post.await_go())
            report.begin_ns = time.monotonic_ns()
            sent = 0
            try:
                while (due := pace.due(sent)) >= 0:
                    if due == 0:
                        time.sleep(min(pace.seconds_to(sent), SLEEP_MAX))
                    else:
                        count = block.stamp(sent, due, pace.start, pace.interval)
                        connection.send(block.stamped(sent, count))
                        sent += count
                        post.note(sent)
                    connection.heed()
                connection.flush()
                report.is_complete = True
            finally:
                report.count_sent(sent, plan.size, post.cpu_seconds())

    return work


def publish_with_answers(plan: BenchPlan, run: int, index: int, has_numbers: bool) -> Work:
    """Return the work of publisher `index`."""

    def work(post: WorkerPost, report: WorkerReport) -> None:
        # The loop's usual selector waits whole milliseconds, which would be latency.
        loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
        kind = NumberedPublisher if has_numbers else JetStreamPublisher
        publisher = kind(plan, key_of(run, index), post, report)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                runner.run(publisher.work(index))
            except asyncio.CancelledError:
                raise KeyboardInterrupt from None

    return work


class AnsweredPublisher:
    """The base of both kinds: the schedule, the messages in flight, and when they were answered."""

    def __init__(self, plan: BenchPlan, key: int, post: WorkerPost, report: WorkerReport) -> None:
        self._plan = plan
        self._key = key
        self._post = post
        self._report = report
        self._subjects = plan.subject_names()
        self._filler = payload_of(plan.size)[2 * KEY_BYTES :]
        self._latencies = LatencyTable()
        self._sent = self._answered = 0
        self._answer = asyncio.Event()  # one has come
        self._error: Exception | None = None

    async def work(self, index: int) -> None:
        """Connect, await the go, publish, and report."""
        task = asyncio.current_task()
        assert task is not None, "it runs"
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
        async with connected(self._plan.access) as link:
            await self.prepare(link.client)
            self._post.pipe.send("ready")
            go = asyncio.Event()
            loop.add_reader(self._post.pipe.fileno(), go.set)
            await link.during(go.wait())
            loop.remove_reader(self._post.pipe.fileno())
            pace = SendPace.of(self._plan, index, self._post.begin_at())
            self._report.begin_ns = time.monotonic_ns()
            try:
                await link.during(self._publish(link, pace))
                self._report.is_complete = True
            finally:
                cpu_seconds, latencies = self._post.cpu_seconds(), self._latencies.pairs()
                self._report.count_sent(self._answered, self._plan.size, cpu_seconds, latencies)

    async def prepare(self, client: Client) -> None:
        """Do what must be done before the first message."""

    async def send(self, client: Client, subject: str, payload: bytes, due: int) -> None:
        """Send a message; `answered` is called when its answer has come."""
        raise NotImplementedError

    def answered(self, due: int, error: Exception | None = None) -> None:
        """Count the answer to a message that was to be sent at `due`."""
        self._latencies.add(time.monotonic_ns() - due)
        self._answered += 1
        self._error = self._error or error
        self._answer.set()

    async def _publish(self, link: CommandConnection, pace: SendPace) -> None:
        try:
            while (due := pace.due(self._sent)) >= 0:
                if due == 0:
                    await asyncio.sleep(pace.seconds_to(self._sent))
                for _ in range(min(due, NOTE_EVERY)):
                    await self._await_answers(self._plan.window - 1)
                    await self._send_next(link.client, pace)
                self._post.note(self._answered)
            await self._await_answers(0)
        except Refused as error:
            raise CliError(f"{link.shown}: the broker refused: {error.reason}") from None

    async def _send_next(self, client: Client, pace: SendPace) -> None:
        now = time.monotonic_ns()
        due = int(pace.start + self._sent * pace.interval) if pace.interval else now
        stamp = (self._key + self._sent).to_bytes(KEY_BYTES) + due.to_bytes(KEY_BYTES)
        subject = self._subjects[self._sent % len(self._subjects)]
        await self.send(client, subject, stamp + self._filler, due)
        self._sent += 1

    async def _await_answers(self, most: int) -> None:
        """Wait until at most so many messages are in flight. Raises what an answer said."""
        while self._sent - self._answered > most and self._error is None:
            self._answer.clear()
            try:
                async with asyncio.timeout(self._plan.timeout):  # `wait_for` may miss a cancel
                    await self._answer.wait()
            except TimeoutError:
                raise BrokerError(f"no answer came for {self._plan.timeout:g} s") from None
        if self._error is not None:
            raise self._error


class NumberedPublisher(AnsweredPublisher):
    """Seriatim answers with the number of the message: the client's `send`."""

    async def send(self, client: Client, subject: str, payload: bytes, due: int) -> None:
        """Send a message; `answered` is called when its number has come."""
        future = await client.send(subject, payload, timeout=self._plan.timeout)

        def done(number: asyncio.Future[int]) -> None:
            if not number.cancelled():
                error = number.exception()
                self.answered(due, error if isinstance(error, Exception) else None)

        future.add_done_callback(done)


class JetStreamPublisher(AnsweredPublisher):
    """JetStream answers with a pub ack, to a reply subject of each message."""

    def __init__(self, plan: BenchPlan, key: int, post: WorkerPost, report: WorkerReport) -> None:
        super().__init__(plan, key, post, report)
        self._inbox = ""
        self._waiting: dict[str, int] = {}  # when a message was to be sent, by its reply subject

    async def prepare(self, client: Client) -> None:
        """Subscribe to the pub acks."""
        self._inbox = client.new_inbox()
        await client.subscribe(f"{self._inbox}.*", self._take)

    async def send(self, client: Client, subject: str, payload: bytes, due: int) -> None:
        """Send a message; `answered` is called when its pub ack has come."""
        reply = f"{self._inbox}.{self._sent}"
        self._waiting[reply] = due
        await client.publish_unconfirmed(subject, payload, reply=reply)

    def _take(self, message: Message) -> None:
        due = self._waiting.pop(message.subject, None)
        if due is not None:
            self.answered(due, self._refusal(message))

    def _refusal(self, message: Message) -> Exception | None:
        """Return what is wrong with an answer, if anything is."""
        if b'"error"' in message.payload or message.status:
            try:
                said = json.loads(message.payload)["error"]["description"]
            except (ValueError, KeyError, TypeError):
                said = message.description or repr(message.payload[:40])
            return BrokerError(f"JetStream refuses a message: {said}")
        return None
