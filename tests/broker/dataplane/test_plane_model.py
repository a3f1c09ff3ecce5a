"""The data plane against the model of a broker, which checks every subscription for each message.

Both run random programs of connections, one operation at a time; every byte that any connection
receives is compared. Only two things are free: the order of the copies of one message, and which
member of a queue group, or which of several subscriptions on a reply, gets what one must get.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.messages import Message, pieces
from testkit.model_broker import Model
from testkit.peer import Peer
from testkit.stage import Stage
from testkit.world import BARE, World
from tests.support.depth import examples

EXCLUDED = b"x.>"
PEERS = 3
FIELDS = ("verbose", "pedantic", "echo", "headers", "no_responders")


# Programs

subjects = st.lists(st.sampled_from([b"a", b"b", b"*", b">"]), min_size=1, max_size=3).map(
    b".".join
)
literal = st.lists(st.sampled_from([b"a", b"b"]), min_size=1, max_size=2).map(b".".join)
odd = st.sampled_from([b"a..b", b".a", b"a.", b"x.a", b"x", b"$SEQ.>", b"$SYS.a"])
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
        b"NATS/1.0\r\nNATS-TIME-STAMP: never\r\n\r\n",
    ]
)


NOTHING = Message(b"", b"")


@dataclass(frozen=True)
class Step:
    """One operation of one connection."""

    index: int
    kind: str
    words: tuple[bytes, ...] = ()
    options: tuple[tuple[str, bool], ...] = ()
    frame: str = ""
    sent: Message = NOTHING
    times: int = 1

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
    index = draw(st.integers(0, PEERS - 1))
    kind = draw(
        st.sampled_from(["connect", *["subscribe"] * 4, *["unsubscribe"] * 2, *["publish"] * 8])
    )
    if kind == "subscribe":
        subject = draw(st.one_of(subjects, literal, odd))
        queue = draw(st.sampled_from([b"", b"", b"q", b"r"]))
        return Step(index, kind, (subject, queue, draw(sids)))
    if kind == "unsubscribe":
        return Step(index, kind, (draw(sids), draw(st.sampled_from([b"", b"1", b"2", b"3", b"x"]))))
    if kind == "connect":
        options = {name: draw(st.booleans()) for name in FIELDS}
        options["headers"] |= options["no_responders"]
        options["headers"] |= draw(st.booleans())
        frame = draw(st.sampled_from(["", "netstring", "header", "stamp", "none"]))
        return Step(index, kind, options=tuple(options.items()), frame=frame)
    acknowledged = literal.map(b"$SEQ.PUB.".__add__)
    subject = draw(st.one_of(literal, literal, literal, odd, forbidden, asked, acknowledged))
    replied = literal if subject.startswith(b"$SEQ.PUB.") and draw(st.booleans()) else replies
    sent = Message(subject, draw(payloads), draw(header_blocks), draw(replied))
    return Step(index, kind, sent=sent, times=draw(st.sampled_from([1, 1, 4])))


programs = st.tuples(
    st.lists(
        st.sampled_from(["netstring", "header", "stamp", "none"]), min_size=PEERS, max_size=PEERS
    ),
    st.lists(steps(), min_size=15, max_size=40),
)
Program = tuple[list[str], list[Step]]


def observed(frames: list[str]) -> World:
    """A broker and its model, which sees what each operation brings each client."""
    return World(
        Model(max_control_line=4096, max_payload=1 << 20, max_subscriptions=0, excluding=True),
        frames,
        max_pending=1 << 26,
        inbox_size=1 << 16,
        max_routes=1 << 18,
        number=0,
        keeping=BARE,
        observed=True,
    )


def agreed(world: World, step: Step) -> Step:
    """The step without headers, if none were agreed: they would end the connection."""
    if world.peers[step.index].model.has("headers"):
        return step
    return replace(step, sent=replace(step.sent, headers=b""))


@settings(max_examples=examples(200))
@given(program=programs)
def test_given_any_program_then_every_byte_is_what_the_model_says(program: Program) -> None:
    frames, steps = program
    world = observed(frames)
    for step in steps:
        for _ in range(step.times):
            world.feed(step.index, agreed(world, step).text())
        assert not any(peer.connection.closed for peer in world.peers)
    world.finish()


def play(frames: list[str], sends: Iterable[tuple[int, list[bytes]]]) -> list[bytes]:
    """What each connection heard of a program that came in these chunks."""
    stage = Stage(exclude=[EXCLUDED])
    peers: list[Peer] = [stage.join(frame=frame) for frame in frames]
    for index, chunks in sends:
        peers[index].send(*chunks)
    return [peer.take() for peer in peers]


def together(played: list[Step]) -> list[tuple[int, bytes]]:
    """The steps of one connection that follow each other, as one piece of wire."""
    found: list[tuple[int, bytes]] = []
    for step in played:
        if found and found[-1][0] == step.index:
            found[-1] = (step.index, found[-1][1] + step.text() * step.times)
        else:
            found.append((step.index, step.text() * step.times))
    return found


@settings(max_examples=examples(100))
@given(program=programs, cuts=st.lists(st.integers(0, 1 << 16), max_size=6))
def test_given_any_program_when_its_bytes_come_in_other_pieces_then_all_hear_the_same(
    program: Program, cuts: list[int]
) -> None:
    frames, played = program
    runs = together(played)
    whole = play(frames, [(index, [wire]) for index, wire in runs])
    assert play(frames, [(step.index, [step.text()] * step.times) for step in played]) == whole
    assert play(frames, [(index, pieces(wire, cuts)) for index, wire in runs]) == whole
