"""A client's output: the events that it must contain, in order, and whether its bytes match.

Most events are one text. The copies of one message for several subscriptions may come in any order,
and a queue group gives one copy to one member, on this connection or another: such copies are
`may`. So the places in the output where an event may end are a set, and an output is right if some
path through all events ends at its end.
"""

from dataclasses import dataclass, field

WAYS_MAX = 5000


@dataclass(slots=True)
class Event:
    """An event in the output of a client.

    `must`: every text once. `may`: by group, at most one of its texts, or `sure` exactly one.

    A connection that lags, or asked for the past, receives some things out of turn. `stream` says
    which order an event belongs to: "live" is the order of numbers, "told" comes at once, "turn"
    after everything published before was delivered, and a number is a replay of its own.
    """

    must: list[bytes] = field(default_factory=list)
    may: dict[bytes, list[bytes]] = field(default_factory=dict)
    sure: bool = False
    stream: str | int = "told"
    counted: bool = True  # whether it is one of the messages sent to a connection
    # how many events of other streams came before
    after: dict[str, int] = field(default_factory=dict)

    def is_message(self) -> bool:
        """True if the event is more than one line for one client."""
        return bool(self.may) or self.must[0].startswith((b"MSG ", b"HMSG "))

    def sids(self) -> dict[str, "Event"]:
        """The event split by subscription: their copies may arrive separately."""
        parts: dict[str, Event] = {}
        for text in self.must:
            parts.setdefault(_sid(text), Event()).must.append(text)
        for group, texts in self.may.items():
            for text in texts:
                parts.setdefault(_sid(text), Event()).may.setdefault(group, []).append(text)
        return parts


def _sid(text: bytes) -> str:
    return "sid " + text.split(b" ", 3)[2].decode("latin-1")


def _walk(output: bytes, at: int, event: Event) -> tuple[set[int], bool]:
    """Return where the event may end if it begins at `at`; and if the output ends within it."""
    must, may = list(event.must), dict(event.may)
    ends: set[int] = set()
    while True:
        if not must and not (event.sure and may):
            ends.add(at)
        text = next((text for text in must if output.startswith(text, at)), None)
        if text is not None:
            must.remove(text)
            at += len(text)
            continue
        for group, texts in may.items():
            text = next((text for text in texts if output.startswith(text, at)), None)
            if text is not None:
                del may[group]
                at += len(text)
                break
        else:
            return ends, at == len(output)


def fits(output: bytes, events: list[Event], whole: bool) -> bool:
    """True if the output is all events; with `whole` false, a prefix of them."""
    places = {0}
    for event in events:
        onward: set[int] = set()
        for at in places:
            ends, ended = _walk(output, at, event)
            if ended and not whole:
                return True
            onward |= ends
        if not onward:
            return False
        places = onward
    return len(output) in places


def streams_of(events: list[Event]) -> dict[str, list[Event]]:
    """Events by what keeps its order: each subscription, each replay, and immediate replies."""
    streams: dict[str, list[Event]] = {}
    for event in events:
        if isinstance(event.stream, int):
            streams.setdefault(f"past {event.stream}", []).append(event)
        elif event.stream == "live" or event.is_message():
            for sid, part in event.sids().items():
                name = sid if event.stream == "live" else f"told {sid}"
                streams.setdefault(name, []).append(part)
        else:
            if event.stream == "turn":
                event.after = {
                    name: len(part) for name, part in streams.items() if name.startswith("sid ")
                }
            streams.setdefault(event.stream, []).append(event)
    return streams


def fits_streams(output: bytes, streams: dict[str, list[Event]], whole: bool) -> bool:
    """True if the output is all events of all streams, each stream in its order.

    Also true if there are too many possibilities to check.
    """
    names = list(streams)
    first = (0, *(0 for _ in names))
    ways, seen = [first], {first}
    while ways and len(seen) < WAYS_MAX:
        at, *reached = ways.pop()
        if at == len(output) and all(
            n == len(streams[name]) for n, name in zip(reached, names, strict=True)
        ):
            return True
        for turn, name in enumerate(names):
            if reached[turn] == len(streams[name]):
                continue
            event = streams[name][reached[turn]]
            if any(reached[names.index(before)] < n for before, n in event.after.items()):
                continue
            ends, ended = _walk(output, at, event)
            if ended and not whole:
                return True
            for end in ends:
                way = (end, *reached[:turn], reached[turn] + 1, *reached[turn + 1 :])
                if way not in seen:
                    seen.add(way)
                    ways.append(way)
    return bool(ways)


def canonical(output: bytes) -> bytes:
    """Write every size as a plain decimal: a journal does not keep how it was written."""
    parts, at = [], 0
    while at < len(output):
        end = output.find(b"\r\n", at)
        words = output[at:end].split(b" ")
        if end < 0 or words[0] not in (b"MSG", b"HMSG"):
            end = len(output) if end < 0 else end + 2
            parts.append(output[at:end])
        else:
            numbers = 2 if words[0] == b"HMSG" else 1
            sizes = [b"%d" % int(word) for word in words[-numbers:]]
            body = end + 2
            end = body + int(words[-1]) + 2
            parts += [b" ".join(words[:-numbers] + sizes), b"\r\n", output[body:end]]
        at = end
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Got:
    """A message as a client received it."""

    subject: bytes
    sid: bytes
    headers: bytes
    payload: bytes
    at: int  # where its line ends


def messages(output: bytes) -> list[Got]:
    """Parse a server's bytes like a strict client: whole operations and nothing else."""
    got: list[Got] = []
    at = 0
    while at < len(output):
        end = output.find(b"\r\n", at)
        assert end >= 0, f"ends in the middle of a line: {output[at : at + 80]!r}"
        line, at = output[at:end], end + 2
        verb = line.split(b" ", 1)[0]
        if verb in (b"-ERR", b"INFO") or line in (b"+OK", b"PING", b"PONG"):
            continue
        got.append(_message(line, output, at))
        at += len(got[-1].headers) + len(got[-1].payload) + 2
    return got


def _message(line: bytes, output: bytes, at: int) -> Got:
    words = line.split(b" ")
    numbers = 2 if words[0] == b"HMSG" else 1
    assert words[0] in (b"MSG", b"HMSG"), f"not a server's word: {line[:80]!r}"
    assert len(words) - numbers in (3, 4), f"wrong count of words: {line[:80]!r}"
    assert all(word.isdigit() for word in words[-numbers:]), f"wrong sizes: {line[:80]!r}"
    end = at + int(words[-1])
    middle = at + int(words[-2]) if numbers == 2 else at
    assert at <= middle <= end, f"wrong sizes: {line[:80]!r}"
    assert output[end : end + 2] == b"\r\n", f"the payload does not end: {line[:80]!r}"
    return Got(words[1], words[2], output[at:middle], output[middle:end], at)
