"""Generated scripts: random operations with small mutations, our answer against nats-server's.

Bounded and seeded (derandomized), so a failure can be repeated and shrinks to the smallest script.
Each script ends with a PING and the end of our sending side, so that both servers finish:
whether the PONG came tells an open connection from a closed one.
"""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.depth import examples
from tests.support.processes import STAND_IN
from tests.support.raw import RawClient
from tests.wire.conftest import Choose
from tests.wire.normal import Plain, normal_bytes

SCRIPTS = examples(250)

tokens = st.sampled_from(
    [b"a", b"b", b"foo", b"*", b">", b"A", b"f>", b"", b"\xff", b"_R_", b"_GR_"]
)
subjects = st.lists(tokens, min_size=1, max_size=4).map(b".".join)
plain_subjects = st.lists(st.sampled_from([b"a", b"b", b"foo"]), min_size=1, max_size=3).map(
    b".".join
)
likely_subjects = st.one_of(plain_subjects, plain_subjects, subjects)
sids = st.sampled_from([b"1", b"2", b"3", b"x"])
MEMBER = {b"1": b"a", b"2": b"b", b"3": b"c", b"x": b"d"}
groups = st.sampled_from([b"", b"", b" q"])
blanks = st.sampled_from([b" ", b" ", b" ", b"\t", b"  "])
ends = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n"])
replies = st.one_of(st.just(b""), st.just(b""), likely_subjects)
payloads = st.sampled_from([b"", b"x", b"hello", b"\r\n", b"PING\r\n", b"\x00\xff"])
zeros = st.sampled_from([b"", b"", b"", b"0", b"00"])
# never pedantic: nats-server judges a subject at the end of its line, we when the message is
# whole, which differs when it never gets whole; the table of cases has the pedantic ones
options = st.fixed_dictionaries(
    {"pedantic": st.just(False)},
    optional={
        "verbose": st.booleans(),
        "echo": st.booleans(),
        "headers": st.booleans(),
        "no_responders": st.booleans(),
        "protocol": st.sampled_from([0, 1]),
    },
)


@st.composite
def connects(draw: st.DrawFn) -> bytes:
    chosen = draw(options)
    fields = ",".join(f'"{key}":{str(value).lower()}' for key, value in chosen.items())
    return b"CONNECT {" + fields.encode() + b"}" + draw(ends)


@st.composite
def subscribes(draw: st.DrawFn) -> bytes:
    subject, group, sid = draw(likely_subjects), draw(groups), draw(sids)
    sid = b"q1" + MEMBER[sid] if group else sid  # the comparison takes q1a, q1b, ... as one
    return b"SUB" + draw(blanks) + subject + group + draw(blanks) + sid + draw(ends)


@st.composite
def unsubscribes(draw: st.DrawFn) -> bytes:
    most = draw(st.sampled_from([b"", b"", b" 0", b" 1", b" 2", b" 5", b" x"]))
    # no limit for members: which of them gets a message is free, so how long each lasts would be
    sid = draw(st.one_of(sids.map(lambda sid: sid + most), st.sampled_from([b"q1a", b"q1b"])))
    return b"UNSUB" + draw(blanks) + sid + draw(ends)


@st.composite
def publishes(draw: st.DrawFn) -> bytes:
    payload, reply = draw(payloads), draw(replies)
    words = [draw(likely_subjects), *([reply] if reply else [])]
    size = draw(zeros) + b"%d" % len(payload)
    return b"PUB " + draw(blanks).join([*words, size]) + draw(ends) + payload + b"\r\n"


@st.composite
def header_publishes(draw: st.DrawFn) -> bytes:
    header, payload = draw(st.sampled_from([b"", b"NATS/1.0\r\n\r\n"])), draw(payloads)
    words = [draw(likely_subjects), draw(replies)]
    words += [b"%d" % len(header), b"%d" % len(header + payload)]
    line = b"HPUB " + b" ".join(word for word in words if word) + draw(ends)
    return line + header + payload + b"\r\n"


others = st.sampled_from([b"PING\r\n", b"ping\n", b"PONG\r\n", b"+OK\r\n", b"INFO {}\r\n"])
single_operations = st.one_of(
    subscribes(), subscribes(), unsubscribes(), publishes(), publishes(), header_publishes(), others
)


@st.composite
def mutated(draw: st.DrawFn, text: bytes) -> bytes:
    """One byte dropped, doubled, or replaced; or the text cut short."""
    at = draw(st.integers(0, len(text) - 1))
    kind = draw(st.sampled_from(["drop", "double", "replace", "cut"]))
    if kind == "drop":
        return text[:at] + text[at + 1 :]
    if kind == "double":
        return text[: at + 1] + text[at:]
    if kind == "cut":
        return text[:at]
    with_byte = draw(st.sampled_from([b" ", b"\t", b"P", b"U", b"x", b"0", b"9", b".", b"*", b">"]))
    return text[:at] + with_byte + text[at + 1 :]


@st.composite
def scripts(draw: st.DrawFn) -> bytes:
    parts = [draw(connects())]
    parts += draw(st.lists(single_operations, min_size=1, max_size=12))
    if draw(st.booleans()):
        at = draw(st.integers(1, len(parts) - 1))
        parts[at] = draw(mutated(parts[at]))
    return b"".join(parts)


def answer(port: int, script: bytes, cuts: list[int]) -> list[Plain]:
    with RawClient(port) as client:
        client.send_split(script + b"PING\r\n", cuts)
        client.half_close()
        said, closed = client.answer(b"", 1 << 30)
        assert closed
        return [anyone(plain) for plain in normal_bytes(said)]


def anyone(plain: Plain) -> Plain:
    """A 503 goes to one of the asker's subscriptions to the reply; which one is free."""
    if plain[0] == "HMSG" and plain[5] != b"NATS/1.0\r\n\r\n":  # no publisher's header here
        return plain[:-1]
    return plain


@settings(
    max_examples=SCRIPTS,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(script=scripts(), places=st.lists(st.integers(0, 200), max_size=6))
def test_given_random_operations_then_the_answer_is_nats_servers(
    script: bytes, places: list[int], oracle: Choose, tested: Choose
) -> None:
    expected = answer(oracle("default").port, script, [])
    port = tested("default").port
    assert answer(port, script, []) == expected
    if not STAND_IN:  # nats-server itself answers some pieces otherwise
        cuts = sorted({place for place in places if 0 < place < len(script)})
        assert answer(port, script, cuts) == expected, f"cut at {cuts}"
