"""Generated streams, for hypothesis: operations, whole or damaged, one after the other."""

from hypothesis import strategies as st

TOKENS = [b"a", b"b", b"foo", b"*", b">", b"", b"\xff", b"x\x01", b"long" * 9]
VERBS = [b"PUB", b"HPUB", b"SUB", b"UNSUB", b"CONNECT", b"INFO", b"PING", b"PONG", b"+OK", b"-ERR"]

subjects = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=4).map(b".".join)
words = st.one_of(subjects, st.sampled_from([b"1", b"q", b"sid", b"007"])).filter(bool)
blanks = st.sampled_from([b" ", b" ", b" ", b"\t", b"  ", b" \t "])
ends = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n"])
payloads = st.one_of(
    st.sampled_from([b"", b"x", b"\r\n", b"\r", b"PING\r\n", b"PUB a 1\r\nx\r\n"]),
    st.binary(max_size=40),
)
zeros = st.sampled_from([b"", b"", b"", b"0", b"00"])


@st.composite
def cased(draw: st.DrawFn, verb: bytes) -> bytes:
    return draw(st.sampled_from([verb, verb, verb.lower(), verb.title()]))


@st.composite
def publishes(draw: st.DrawFn) -> bytes:
    """A whole PUB or HPUB."""
    headed, payload = draw(st.booleans()), draw(payloads)
    verb = draw(cased(b"HPUB" if headed else b"PUB"))
    parts = [verb, draw(words)]
    if draw(st.booleans()):
        parts.append(draw(words))
    if headed:
        parts.append(draw(zeros) + b"%d" % draw(st.integers(0, len(payload))))
    parts.append(draw(zeros) + b"%d" % len(payload))
    line = parts[0]
    for part in parts[1:]:
        line += draw(blanks) + part
    return line + draw(ends) + payload + b"\r\n"


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Any verb with any words, right or not."""
    line = draw(cased(draw(st.sampled_from(VERBS))))
    for word in draw(st.lists(words, max_size=5)):
        line += draw(blanks) + word
    return line + draw(ends)


@st.composite
def damaged(draw: st.DrawFn, text: bytes) -> bytes:
    """One byte dropped, doubled or replaced, or the text cut short."""
    at = draw(st.integers(0, max(len(text) - 1, 0)))
    kind = draw(st.sampled_from(["drop", "double", "replace", "cut"]))
    if kind == "drop":
        return text[:at] + text[at + 1 :]
    if kind == "double":
        return text[: at + 1] + text[at:]
    if kind == "cut":
        return text[:at]
    return text[:at] + draw(st.binary(min_size=1, max_size=1)) + text[at + 1 :]


@st.composite
def wires(draw: st.DrawFn) -> bytes:
    """A stream: mostly whole operations, now and then a damaged one."""
    operations = st.one_of(publishes(), publishes(), lines())
    parts: list[bytes] = draw(st.lists(operations, max_size=6))
    if draw(st.booleans()) and parts:
        at = draw(st.integers(0, len(parts) - 1))
        parts[at] = draw(damaged(parts[at]))
    return b"".join(parts)


cuts = st.lists(st.integers(0, 1 << 16), max_size=8)
