"""A consumer beside nats-server: the same requests and acks, the same messages and statuses.

After each step nats-server must send what ours does, in the same order for each inbox, and nothing
else: what it sends too much is found at the next step. Only times differ; nothing is due by time.
"""

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.streams.consumer_config import StreamRules, read_create
from broker.streams.offer_outcomes import THEN
from broker.streams.stream_consumer import Confirm, State, Status, StreamConsumer
from tests.support.depth import depth
from tests.support.processes import NatsServer
from tests.support.raw import HEADERS, Operation, RawClient

# Its threads race: once in some thousand steps a message counts only after another has passed. What
# is really different is so each time.
TRIES = 3
NOW = 1_000_000_000
TIME = 1_795_709_001_693_184_725
ACK = re.compile(rb"(\$JS\.ACK\.S\.C\.\d+\.\d+\.\d+)\.\d+(\.\d+)")
Heard = dict[bytes, list[bytes]]  # by inbox


class Difference(AssertionError):
    """What nats-server sent, and what ours did."""


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    store: Path = tmp_path_factory.mktemp("jetstream")
    with NatsServer(more=f'jetstream {{ store_dir: "{store}" }}\n') as server:
        yield server


class Ours:
    """Our consumer, and a stream of messages in memory."""

    def __init__(self, request: bytes, sizes: list[int]) -> None:
        self.sizes = [0, *sizes]  # by number
        config = read_create(request).resolve(None, StreamRules())
        self.kinds = [int(one[2:]) for one in config.filters] or [0, 1, 2]
        self.consumer = StreamConsumer("S", "C", config, NOW)
        self.consumer.start(1, len(sizes), NOW)
        matching = sum(self.matches(number) for number in range(1, len(self.sizes)))
        self.consumer.counted(1, matching, NOW)
        self.consumer.actions.clear()
        self.heard: Heard = defaultdict(list)
        self.acks: list[tuple[int, int]] = []

    def matches(self, number: int) -> bool:
        return number % 3 in self.kinds

    def publish(self, size: int) -> None:
        self.sizes.append(size)
        number = len(self.sizes) - 1
        if self.matches(number) and self.consumer.deliverer.matched(number):
            self.consumer.decide(NOW)

    def settle(self) -> Heard:
        consumer, deliverer = self.consumer, self.consumer.deliverer
        self.carry_out()
        while consumer.state == State.READING:
            number = deliverer.wanted(NOW)
            while number and not deliverer.again and not self.matches(number):
                number += 1
            subject = b"s.%d" % (number % 3)
            size = len(subject) + self.sizes[number] if number else 0
            outcome = deliverer.offer(number, TIME + number, size, NOW) if number else 0
            if not outcome:
                consumer.decide(NOW)
                self.carry_out()
                continue
            consumer.take_endings()
            self.carry_out()
            reply = bytes(deliverer.reply[: deliverer.reply_size])
            inbox: bytes = deliverer.target.inbox  # type: ignore[attr-defined]
            self.heard[inbox].append(subject + b" " + ACK.sub(rb"\1.T\2", reply))
            self.acks.append((number, deliverer.number))
            if outcome & THEN:
                consumer.follow(NOW)
            self.carry_out()
        heard, self.heard = self.heard, defaultdict(list)
        return heard

    def carry_out(self) -> None:
        for action in self.consumer.actions:
            if isinstance(action, Status):
                self.heard[action.inbox].append(action.headers)
            elif isinstance(action, Confirm):
                self.heard[action.reply].append(b"")
        self.consumer.actions.clear()


class Beside:
    """One consumer on both sides."""

    def __init__(self, nats: RawClient, seed: int) -> None:
        self.draw, self.nats = random.Random(seed), nats
        self.inboxes: dict[bytes, bytes] = {}  # by sid
        self.subjects: dict[
            tuple[int, int], bytes
        ] = {}  # ack subjects, as nats-server has sent them
        self.count = 0
        self.steps: list[bytes] = []
        self.tell(b"SUB api 1\r\nSUB done 0\r\n")
        self.ask(b"STREAM.DELETE.S", {})
        stream = {"name": "S", "subjects": ["s.*"], "storage": "memory"}
        assert "error" not in self.ask(b"STREAM.CREATE.S", stream)
        sizes = [self.draw.choice([0, 10, 200]) for _ in range(self.draw.randrange(30))]
        for number, size in enumerate(sizes, 1):
            self.publish(number, size)
        choose = self.draw.choice
        fields: dict[str, object] = {"durable_name": "C", "ack_policy": choose(["explicit", "all"])}
        fields["max_ack_pending"] = choose([1, 3, 1000])
        fields["max_deliver"] = choose([-1, -1, 2])
        fields["max_waiting"] = choose([2, 512])
        fields["filter_subjects"] = choose([[], ["s.0"], ["s.0", "s.2"]])
        request = {"stream_name": "S", "config": fields}
        assert "error" not in self.ask(b"CONSUMER.CREATE.S.C", request)
        self.limited = fields["max_deliver"] != -1
        self.roomy = fields["max_ack_pending"] == 1000
        self.acks_all = fields["ack_policy"] == "all"
        self.words = [b"", b"", b"+ACK", b"+TERM", b"+NXT 2", b"-X"]
        # With `all`, nats-server ignores acks of what was sent before a redelivery; and there
        # progress does not take back a nak. So not every word is for every run.
        self.words += choose([[b"+WPI"], [] if self.acks_all else [b"-NAK", b"-NAK 30s"]])
        self.ours = Ours(json.dumps(request).encode(), sizes)
        self.ours.settle()

    def tell(self, data: bytes) -> None:
        self.steps.append(data)
        self.nats.send(data)

    def ask(self, subject: bytes, request: object) -> dict[str, object]:
        text = json.dumps(request).encode() if request else b""
        self.tell(b"PUB $JS.API.%b api %d\r\n%b\r\n" % (subject, len(text), text))
        answer: dict[str, object] = json.loads(self.nats.operation().payload)
        return answer

    def publish(self, number: int, size: int) -> None:
        self.tell(b"PUB s.%d api %d\r\n%b\r\n" % (number % 3, size, b"x" * size))

        assert json.loads(self.nats.operation().payload) == {"stream": "S", "seq": number}

    def inbox(self) -> bytes:
        self.count += 1
        inbox, sid = b"i.%d" % self.count, b"%d" % (self.count + 1)
        self.inboxes[sid] = inbox
        self.tell(b"SUB %b %b\r\n" % (inbox, sid))
        return inbox

    def step(self) -> None:
        ours, choose = self.ours, self.draw.choice
        kind = choose(["request"] * 3 + ["ack"] * 4 + ["publish"])
        if kind == "publish":
            size = choose([0, 10, 200])
            self.tell(b"PUB s.%d api %d\r\n%b\r\n" % (len(ours.sizes) % 3, size, b"x" * size))
            ours.publish(size)
        elif kind == "request":
            asked = {"batch": choose([1, 2, 5, 0]), "max_bytes": choose([0, 0, 50, 300])}
            # With too much unacked, it depends on nats-server's threads who hears of an end.
            asked["no_wait"] = self.roomy and choose([True, False])
            text, inbox = json.dumps(asked).encode(), self.inbox()
            head = b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C %b %d\r\n" % (inbox, len(text))
            self.tell(head + text + b"\r\n")
            ours.consumer.request(inbox, "client", text, NOW)
        elif ours.acks:
            number, consumer = choose(ours.acks[-6:])
            word = choose(self.words)
            inbox = self.inbox()
            head = b"PUB %b %b %d\r\n" % (self.subjects[number, consumer], inbox, len(word))
            self.tell(head + word + b"\r\n")
            ours.consumer.ack(number, consumer, TIME + number, word, inbox, "client", NOW)
        # Each has a thread of its own there: an ack and a request that change nothing say when both
        # have taken what came before.
        self.tell(b"PUB $JS.ACK.S.C.1.1.1.1.0 done 4\r\n+WPI\r\n")
        self.tell(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C done 2\r\n{x\r\n")
        self.compare(3 if kind == "publish" else 2)

    def compare(self, beside: int) -> None:
        mine = self.ours.settle()
        theirs: Heard = defaultdict(list)
        left = sum(map(len, mine.values())) + beside
        while left:
            left -= 1
            said = self.nats.operation()
            if said.subject not in (b"api", b"done"):
                inbox, text = self.heard(said)
                theirs[inbox].append(text)
        if theirs != mine:
            raise Difference(theirs, mine, self.steps)

    def heard(self, said: Operation) -> tuple[bytes, bytes]:
        if not said.reply:
            return self.inboxes[said.sid], said.header
        numbers = said.reply.split(b".")
        self.subjects[int(numbers[5]), int(numbers[6])] = said.reply
        return self.inboxes[said.sid], said.subject + b" " + ACK.sub(rb"\1.T\2", said.reply)

    def finish(self) -> None:
        info, mine = self.ask(b"CONSUMER.INFO.S.C", {}), self.ours.consumer.numbers()
        if self.limited:  # what was delivered often enough counts as redelivered there
            return
        if self.acks_all:  # there it is the last ack, here it is below the next pending one
            del mine["ack_floor"]
        for name, value in mine.items():
            theirs = info[name]
            if isinstance(theirs, dict):
                theirs.pop("last_active", None)
            if theirs != value:
                raise Difference(name, theirs, value)


@pytest.mark.parametrize("seed", range(depth(20, 500)))
def test_given_requests_and_acks_then_nats_server_sends_the_same(
    nats: NatsServer, seed: int
) -> None:
    for tried in range(TRIES):
        try:
            return play(nats, seed)
        except Difference:
            if tried == TRIES - 1:
                raise


def play(nats: NatsServer, seed: int) -> None:
    with RawClient(nats.port, HEADERS) as client:
        beside = Beside(client, seed)
        for _ in range(40):
            beside.step()
        beside.finish()


def flowing(client: RawClient, count: int) -> list[bytes]:
    """What nats-server sends to a deliver subject: numbers, and `flow` for a question."""
    found: list[bytes] = []
    while len(found) < count:
        said = client.operation()
        if said.subject == b"api":
            continue  # the answer to the request, which may come after the first messages
        if b"FlowControl" in said.header:
            found.append(b"flow")
            client.send(b"PUB %b 0\r\n\r\n" % said.reply)
        else:
            found.append(said.reply.split(b".")[6])
    return found


def test_given_a_window_when_messages_fill_it_then_nats_server_asks_at_the_same_places(
    nats: NatsServer,
) -> None:
    count, size = 120, 100_000
    fields = {"deliver_subject": "d", "flow_control": True, "idle_heartbeat": 30_000_000_000}
    request = json.dumps({"stream_name": "S", "config": fields}).encode()
    ours = Ours(request, [size] * count)
    consumer = ours.consumer
    mine: list[bytes] = []
    consumer.interest(True, NOW)
    while len(mine) < count or b"flow" not in mine[-12:]:
        number = consumer.deliverer.wanted(NOW)
        outcome = consumer.deliverer.offer(number, TIME, size + 3, NOW) if number else 0
        if outcome:
            mine.append(b"%d" % number)
        if outcome & THEN:
            consumer.follow(NOW)
        window = consumer.deliverer.window
        if not outcome:  # it waits for the answer
            assert window is not None
            assert window.reply, "it waits for nothing"
            mine.append(b"answered")
            consumer.flow(window.reply, NOW)
        elif consumer.actions:
            mine.append(b"flow")
        consumer.actions.clear()
        if number == count:
            break
    with RawClient(nats.port, HEADERS) as client:
        client.send(b"SUB api 1\r\n")

        def ask(subject: bytes, text: bytes) -> None:
            client.send(b"PUB %b api %d\r\n%b\r\n" % (subject, len(text), text))
            client.operation()

        ask(b"$JS.API.STREAM.DELETE.S", b"")
        ask(b"$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s.*"],"storage":"memory"}')
        for number in range(1, count + 1):
            ask(b"s.%d" % (number % 3), b"x" * size)
        client.send(b"SUB d 2\r\n")
        line = b"PUB $JS.API.CONSUMER.CREATE.S.C api %d\r\n%b\r\n"
        client.send(line % (len(request), request))
        expected = [one for one in mine if one != b"answered"]
        assert flowing(client, len(expected)) == expected
