"""The data plane against a naive broker: a list of subscriptions, and a loop over it.

Random programs of connections are played to both, one operation at a time; every byte that any
connection hears is compared. Free are only the order of the copies of one message, and which
member of a queue group, or which of several subscriptions on a reply, gets what one must get.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.messages import Message, message, pieces
from testkit.peer import Peer
from testkit.stage import Stage
from tests.sublist.naive import is_valid, is_wild, matches

EXCLUDED = b"ex.>"
PEERS = 3
FIELDS = ("verbose", "pedantic", "echo", "headers", "no_responders")
DEFAULTS = {"verbose": True, "pedantic": True, "echo": True}


@dataclass
class Wish:
    """A subscription in the naive broker."""

    owner: "Client"
    subject: bytes
    queue: bytes
    sid: bytes
    delivered: int = 0
    limit: int = 0


@dataclass(eq=False)
class Client:
    """A connection in the naive broker."""

    frame: str
    options: dict[str, bool] = field(default_factory=lambda: dict(DEFAULTS))
    wishes: dict[bytes, Wish] = field(default_factory=dict)
    counts: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    introduced: bool = False

    def on(self, name: str) -> bool:
        return self.options.get(name, False)


Copy = tuple[Wish, bytes]


@dataclass
class Heard:
    """What one operation must cause: in the first part, in the copies, in the last part."""

    first: list[tuple[Client, bytes]] = field(default_factory=list)
    all_of: list[Copy] = field(default_factory=list)
    one_of: list[list[Copy]] = field(default_factory=list)
    last: list[Copy] = field(default_factory=list)
    last_one_of: list[list[Copy]] = field(default_factory=list)


class NaiveBroker:
    """What the data plane should do, said as plainly as possible."""

    def __init__(self, frames: Iterable[str]) -> None:
        self.clients = [Client(frame) for frame in frames]
        self.number = 0

    def wishes(self) -> list[Wish]:
        return [wish for client in self.clients for wish in client.wishes.values()]

    def connect(self, client: Client, options: dict[str, bool], frame: str) -> Heard:
        client.options |= options
        client.frame = frame or client.frame
        if client.introduced:
            client.wishes.clear()
        client.introduced = True
        return self._ok(client)

    def subscribe(self, client: Client, subject: bytes, queue: bytes, sid: bytes) -> Heard:
        if subject.startswith(b"$SEQ."):
            using = b' using queue "%b"' % queue if queue else b""
            words = b'Permissions Violation for Subscription to "%b"%b' % (subject, using)
            return Heard([(client, b"-ERR '%b'\r\n" % words)])
        if sid not in client.wishes:
            if not is_valid(subject):
                return Heard([(client, b"-ERR 'Invalid Subject'\r\n")])
            client.wishes[sid] = Wish(client, subject, queue, sid)
        return self._ok(client)

    def unsubscribe(self, client: Client, sid: bytes, most: bytes) -> Heard:
        wish = client.wishes.get(sid)
        if wish is not None:
            wish.limit = int(most) if most.isdigit() else 0
            if wish.limit <= wish.delivered:
                del client.wishes[sid]
        return self._ok(client)

    def publish(self, client: Client, sent: Message) -> Heard:
        client.counts[0] += 1
        client.counts[1] += len(sent.headers) + len(sent.payload)
        heard = Heard()
        if client.on("pedantic") and not self._literal(sent.subject):
            heard.first.append((client, b"-ERR 'Invalid Publish Subject'\r\n"))
        asked = sent.subject.startswith(b"$SEQ.PUB.")
        own = asked and sent.reply.startswith(b"$SEQ.")
        if own:
            words = b'Permissions Violation for Publish with Reply of "%b"' % sent.reply
            heard.first.append((client, b"-ERR '%b'\r\n" % words))
            return heard
        if asked and not self._forbidden(Message(b"a", b"", reply=sent.reply)):
            return self._acknowledged(client, sent, heard)
        if asked:
            sent = replace(sent, subject=b"a")  # then it is the reply that is wrong
        refusal = self._forbidden(sent)
        if refusal:
            heard.first.append((client, b"-ERR 'Permissions Violation for %b\"'\r\n" % refusal))
            return heard
        if client.on("verbose"):
            heard.first.append((client, b"+OK\r\n"))
        number = 0
        if not matches(EXCLUDED, sent.subject) and matches(b">", sent.subject):
            number = self.number = self.number + 1
        self._fan_out(client, sent, number, heard)
        nobody = not heard.all_of and not heard.one_of
        if nobody and sent.reply and client.on("no_responders"):
            self._no_responders(client, sent, heard)
        return heard

    def _ok(self, client: Client) -> Heard:
        return Heard([(client, b"+OK\r\n")] if client.on("verbose") else [])

    def _literal(self, subject: bytes) -> bool:
        return is_valid(subject) and not is_wild(subject)

    def _forbidden(self, sent: Message) -> bytes:
        if sent.subject.startswith((b"$SEQ.", b"_GR_.x", b"$NRG.")):
            return b'Publish to "' + sent.subject
        if sent.reply.startswith((b"_R_.", b"_GR_.x", b"$JS.ACK.x")):
            return b'Publish with Reply of "' + sent.reply
        return b""

    def _fan_out(self, client: Client, sent: Message, number: int, heard: Heard) -> None:
        found = [
            wish
            for wish in self.wishes()
            if matches(wish.subject, sent.subject)
            and (client.on("echo") or wish.owner is not client)
        ]
        copies = [(wish, self._copy(wish, sent, number)) for wish in found]
        heard.all_of += [copy for copy in copies if not copy[0].queue]
        for queue in sorted({wish.queue for wish in found} - {b""}):
            heard.one_of.append([copy for copy in copies if copy[0].queue == queue])

    def _copy(self, wish: Wish, sent: Message, number: int) -> bytes:
        return message(sent, wish.sid, number, wish.owner.frame, wish.owner.on("headers"))

    def _no_responders(self, client: Client, sent: Message, heard: Heard) -> None:
        status = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % sent.subject
        own = [w for w in client.wishes.values() if not w.queue and matches(w.subject, sent.reply)]
        said = Message(sent.reply, b"", status)
        once = [Wish(client, w.subject, b"", w.sid, limit=-1) for w in own]  # counts for nothing
        if once:
            heard.last_one_of.append([(w, message(said, w.sid, 0, "none", True)) for w in once])

    def _acknowledged(self, client: Client, sent: Message, heard: Heard) -> Heard:
        subject = sent.subject.removeprefix(b"$SEQ.PUB.")
        within = Message(subject, sent.payload, sent.headers, sizes=sent.written)
        problem = b""
        if not self._literal(subject):
            problem = b"Invalid Publish Subject"
        elif self._forbidden(within):
            problem = b"Permissions Violation"
        elif matches(EXCLUDED, subject):
            problem = b"Subject Is Excluded From Sequencing"
        if problem and not (sent.reply and client.on("headers")):
            words = b'Permissions Violation for Publish to "%b"' % sent.subject
            heard.first.append((client, b"-ERR '%b'\r\n" % words))
            return heard
        if problem:
            answer = Message(sent.reply, b"", b"NATS/1.0 400 %b\r\n\r\n" % problem)
        else:
            if client.on("verbose"):
                heard.first.append((client, b"+OK\r\n"))
            if sent.payload:
                self.number += 1
                self._fan_out(client, within, self.number, heard)
            digits = b"%d" % self.number
            answer = Message(sent.reply, b"%d:%b," % (len(digits), digits))
        if sent.reply:
            self._answer(client, answer, heard)
        return heard

    def _answer(self, client: Client, answer: Message, heard: Heard) -> None:
        # Who has had as many messages as it wished for is asked no more: see `settle`.
        found = [wish for wish in client.wishes.values() if matches(wish.subject, answer.subject)]
        copies = [(w, message(answer, w.sid, 0, "none", w.owner.on("headers"))) for w in found]
        heard.last += [copy for copy in copies if not copy[0].queue]
        for queue in sorted({wish.queue for wish in found} - {b""}):
            heard.last_one_of.append([copy for copy in copies if copy[0].queue == queue])


def counted(copy: Copy, size: int) -> None:
    """A subscription has had one more."""
    wish, _ = copy
    if wish.limit < 0:
        return
    wish.owner.counts[2] += 1
    wish.owner.counts[3] += size
    wish.delivered += 1
    if wish.delivered == wish.limit:
        wish.owner.wishes.pop(wish.sid, None)


def size_of(copy: Copy, sent: Message, answered: bool) -> int:
    """What counts of a copy: headers that were taken, and the payload, not the frame."""
    if answered:
        total = copy[1].split(b"\r\n", 1)[0].split(b" ")[-1]
        return int(total)
    headers = sent.headers if copy[0].owner.on("headers") else b""
    return len(headers) + len(sent.payload)


def settle(
    got: dict[Client, bytes], all_of: list[Copy], one_of: list[list[Copy]], sent: Message | None
) -> None:
    """Take these copies off what was heard, in any order; and count them."""

    def alive(copy: Copy) -> bool:
        wish = copy[0]
        return wish.limit < 0 or wish.owner.wishes.get(wish.sid) is wish

    left = [copy for copy in all_of if alive(copy)]
    groups = [members for group in one_of if (members := [c for c in group if alive(c)])]
    while left or groups:
        for copy in left + [copy for group in groups for copy in group]:
            owner, text = copy[0].owner, copy[1]
            if got[owner].startswith(text):
                got[owner] = got[owner][len(text) :]
                counted(copy, size_of(copy, sent or NOTHING, sent is None))
                if copy in left:
                    left.remove(copy)
                else:
                    groups.remove(next(group for group in groups if copy in group))
                break
        else:
            raise AssertionError(f"nobody heard any of {left} {groups}: {list(got.values())}")


def check(heard: Heard, got: dict[Client, bytes], sent: Message | None) -> None:
    """Compare what was heard with what had to be."""
    for client, text in heard.first:
        assert got[client].startswith(text), (text, got[client])
        got[client] = got[client][len(text) :]
    settle(got, heard.all_of, heard.one_of, sent)
    settle(got, heard.last, heard.last_one_of, None)
    assert not any(got.values()), f"heard what nobody said: {list(got.values())}"


# Programs

subjects = st.lists(st.sampled_from([b"a", b"b", b"*", b">"]), min_size=1, max_size=3).map(
    b".".join
)
literal = st.lists(st.sampled_from([b"a", b"b"]), min_size=1, max_size=3).map(b".".join)
odd = st.sampled_from([b"a..b", b".a", b"a.", b"ex.a", b"ex", b"$SEQ.>", b"$SYS.a"])
forbidden = st.sampled_from([b"_GR_.x", b"$NRG.", b"$SEQ.x", b"$SEQ.PUB"])
asked = st.one_of(literal, odd, forbidden, subjects, st.just(b"$SEQ.x")).map(b"$SEQ.PUB.".__add__)
sids = st.sampled_from([b"1", b"2", b"3", b"4"])
replies = st.one_of(
    st.just(b""),
    st.just(b""),
    literal,
    st.sampled_from([b"_R_.x", b"a..b", b"$JS.ACK.x", b"$SEQ.a"]),
)
payloads = st.sampled_from([b"", b"x", b"hello", b"\r\n", b"y" * 120])
header_blocks = st.sampled_from(
    [
        *(
            b"",
            b"",
            b"NATS/1.0\r\n\r\n",
            b"NATS/1.0\r\nA: b\r\n\r\n",
            b"junk",
            b"NATS/1.0 503\r\n\r\n",
        ),
        *(b"NATS/1.0\r\nnats-sequence: 9\r\nA: b\r\n\r\n", b"NATS/1.0\r\nQ: sequence\r\n\r\n"),
    ]
)


NOTHING = Message(b"", b"")


@dataclass(frozen=True)
class Step:
    """One operation of one connection."""

    who: int
    kind: str
    words: tuple[bytes, ...] = ()
    options: tuple[tuple[str, bool], ...] = ()
    frame: str = ""
    sent: Message = NOTHING

    def text(self) -> bytes:
        """As it goes over the wire."""
        if self.kind == "publish":
            return self.sent.wire
        if self.kind == "connect":
            chosen = {name: str(value).lower() for name, value in self.options}
            fields = [f'"{name}":{value}' for name, value in chosen.items()]
            fields += [f'"frame":"{self.frame}"'] if self.frame else []
            return b"CONNECT {" + ",".join(fields).encode() + b"}\r\n"
        verb = b"SUB" if self.kind == "subscribe" else b"UNSUB"
        return b" ".join(word for word in (verb, *self.words) if word) + b"\r\n"


@st.composite
def steps(draw: st.DrawFn) -> Step:
    who = draw(st.integers(0, PEERS - 1))
    kind = draw(st.sampled_from(["connect", *["subscribe"] * 4, "unsubscribe", *["publish"] * 6]))
    if kind == "subscribe":
        subject = draw(st.one_of(subjects, literal, odd))
        queue = draw(st.sampled_from([b"", b"", b"q", b"r"]))
        return Step(who, kind, (subject, queue, draw(sids)))
    if kind == "unsubscribe":
        return Step(who, kind, (draw(sids), draw(st.sampled_from([b"", b"1", b"3", b"x"]))))
    if kind == "connect":
        options = {name: draw(st.booleans()) for name in FIELDS}
        options["headers"] |= options["no_responders"]
        options["headers"] |= draw(st.booleans())
        frame = draw(st.sampled_from(["", "netstring", "header", "none"]))
        return Step(who, kind, options=tuple(options.items()), frame=frame)
    subject = draw(st.one_of(literal, literal, literal, literal, odd, forbidden, asked))
    sent = Message(subject, draw(payloads), draw(header_blocks), draw(replies))
    return Step(who, kind, sent=sent)


programs = st.tuples(
    st.lists(st.sampled_from(["netstring", "header", "none"]), min_size=PEERS, max_size=PEERS),
    st.lists(steps(), min_size=1, max_size=40),
)
Program = tuple[list[str], list[Step]]


def told(naive: NaiveBroker, step: Step) -> Heard:
    """What the naive broker makes of a step."""
    client = naive.clients[step.who]
    if step.kind == "connect":
        return naive.connect(client, dict(step.options), step.frame)
    if step.kind == "subscribe":
        return naive.subscribe(client, *step.words)
    if step.kind == "unsubscribe":
        return naive.unsubscribe(client, *step.words)
    return naive.publish(client, step.sent)


def possible(naive: NaiveBroker, step: Step) -> bool:
    """HPUB without headers agreed would end the connection."""
    return not step.sent.headers or naive.clients[step.who].on("headers")


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(program=programs)
def test_given_any_program_then_every_byte_is_what_the_naive_broker_says(program: Program) -> None:
    frames, played = program
    stage, naive = Stage(exclude=[EXCLUDED]), NaiveBroker(frames)
    peers = [stage.join(frame=frame) for frame in frames]
    for step in played:
        if not possible(naive, step):
            continue
        heard = told(naive, step)
        peers[step.who].send(step.text())
        got = {client: peer.take() for client, peer in zip(naive.clients, peers, strict=True)}
        check(heard, got, step.sent)
        assert stage.number == naive.number
        assert not any(peer.finished for peer in peers)
    for client, peer in zip(naive.clients, peers, strict=True):
        connection = peer.connection
        assert client.counts == [
            connection.in_msgs,
            connection.in_bytes,
            connection.out_msgs,
            connection.out_bytes,
        ]
        assert {sid: sub.delivered for sid, sub in connection.subs.items()} == {
            wish.sid: wish.delivered for wish in client.wishes.values()
        }
    left = sum(len(client.wishes) for client in naive.clients)
    assert stage.sublist.statistics()["subscriptions"] == left


def play(frames: list[str], sends: Iterable[tuple[int, list[bytes]]]) -> list[bytes]:
    """What each connection heard of a program that came in these chunks."""
    stage = Stage(exclude=[EXCLUDED])
    peers: list[Peer] = [stage.join(frame=frame) for frame in frames]
    for who, chunks in sends:
        peers[who].send(*chunks)
    return [peer.take() for peer in peers]


def together(played: list[Step]) -> list[tuple[int, bytes]]:
    """The steps of one connection that follow each other, as one piece of wire."""
    found: list[tuple[int, bytes]] = []
    for step in played:
        if found and found[-1][0] == step.who:
            found[-1] = (step.who, found[-1][1] + step.text())
        else:
            found.append((step.who, step.text()))
    return found


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(program=programs, cuts=st.lists(st.integers(0, 1 << 16), max_size=6))
def test_given_any_program_when_its_bytes_come_in_other_pieces_then_all_hear_the_same(
    program: Program, cuts: list[int]
) -> None:
    frames, played = program
    runs = together(played)
    whole = play(frames, [(who, [wire]) for who, wire in runs])
    assert play(frames, [(step.who, [step.text()]) for step in played]) == whole
    assert play(frames, [(who, pieces(wire, cuts)) for who, wire in runs]) == whole
