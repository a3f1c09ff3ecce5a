"""A program of three clients, two of which have permissions, against a model of these.

    rights rights  step step ...

Rights: the counts of allowed and denied entries to publish and to subscribe, then the entries. A
step: a client and an action (see `STEPS`), and its subjects. A subject is a byte for its length,
and one for each token. For every step the model predicts each client's messages and errors.
"""

from collections.abc import Iterator

from broker.dataplane.guard import Guard, OpenRequests, SubjectRights
from fuzz.model_rights import TOKENS, Person, Rights, Side, Sub
from fuzz.supply import Supply
from sequencer.journal.ring import Ring
from testkit.peer import Peer
from testkit.stage import QUIET, Stage

MAX_LEN = 400
STEPS_MAX = 120
CLIENTS = 3
GROUPS = (b"", b"", b"q", b"r.s")
OF_ENTRIES = (b"q", b"r.*", b">")
WORDS = (*TOKENS[:3], b"*")
SUB, UNSUB, PUB, NUMBERED, ASK, PAST, RENEW = range(7)
STEPS = (SUB, SUB, PUB, PUB, ASK, NUMBERED, UNSUB, PAST, RENEW)
Heard = tuple[bytes, bytes, bytes]  # subject, sid, payload


def subject_of(taken: Supply, wild: bool) -> bytes:
    """A subject of one to three tokens; with wildcards if `wild`."""
    first = taken.take()
    words = WORDS if wild else WORDS[:3]
    tokens = [words[taken.take() % len(words)] for _ in range(first % 3 + 1)]
    if wild and first & 0x80:
        tokens[-1] = b">"
    return b".".join(tokens)


def entries_of(taken: Supply, count: int, grouped: bool) -> list[tuple[bytes, bytes]]:
    found = []
    for _ in range(count):
        kind = taken.take()
        pattern = (b"$SEQ.>", b">")[kind & 1] if kind & 0x0C == 0 else subject_of(taken, True)
        group = OF_ENTRIES[kind >> 4 & 3] if grouped and kind >> 4 & 3 < len(OF_ENTRIES) else b""
        found.append((pattern, group))
    return found


def side_of(taken: Supply, grouped: bool) -> Side:
    counts = taken.take()
    allow = None if counts & 3 == 3 else entries_of(taken, counts & 3, grouped)
    return Side(allow, entries_of(taken, counts >> 2 & 3, grouped))


def rights_of(taken: Supply) -> Rights:
    responses = (0, 1, 2, -1)[taken.take() & 3]
    return Rights(side_of(taken, False), side_of(taken, True), responses)


class World:
    """The broker and the model, side by side."""

    def __init__(self, taken: Supply) -> None:
        self.taken = taken
        self.stage = Stage(journal=Ring(1 << 20))
        self.peers = [self.stage.join(QUIET, frame="none") for _ in range(CLIENTS)]
        self.people = [Person(None) for _ in range(CLIENTS)]
        self.past: list[tuple[bytes, bytes]] = []  # subject, payload
        self.sid = 0
        for index in range(CLIENTS - 1):
            self.grant(index)

    def grant(self, index: int) -> None:
        """Give a client other rights from now on."""
        rights = rights_of(self.taken)
        person, connection = self.people[index], self.peers[index].connection
        publish, subscribe = (SubjectRights(*side.entries()) for side in self._sides(rights))
        connection.guard = Guard(publish, subscribe, rights.responses)
        connection.requests = OpenRequests(rights.responses, 0) if rights.responses else None
        person.rights, person.requests = rights, {}

    def _sides(self, rights: Rights) -> tuple[Side, Side]:
        return rights.publish, rights.subscribe

    def run(self) -> None:
        for _ in range(STEPS_MAX):
            if not self.taken:
                return
            choice = self.taken.take()
            self.step(choice % CLIENTS, STEPS[choice // CLIENTS % len(STEPS)])

    def step(self, index: int, what: int) -> None:
        if what == SUB:
            self.subscribe(index)
        elif what == UNSUB:
            self.unsubscribe(index)
        elif what == PAST:
            self.replay(index)
        elif what == RENEW:
            self.renew(index)
        else:
            self.publish(index, what)

    def heard(self) -> list[tuple[list[Heard], list[bytes]]]:
        """Return the messages and errors that each client has got."""
        self.stage.loop.run()
        return [split(peer) for peer in self.peers]

    def nothing(self, *but: int) -> list[tuple[list[Heard], list[bytes]]]:
        """Return what `heard` does, and check that only the clients `but` have got anything."""
        heard = self.heard()
        assert all(one == ([], []) for at, one in enumerate(heard) if at not in but), heard
        return heard

    def subscribe(self, index: int) -> None:
        pattern, group = subject_of(self.taken, True), GROUPS[self.taken.take() & 3]
        self.sid += 1
        self.peers[index].send(b"SUB %b %b %d\r\n" % (pattern, group, self.sid))
        messages, errors = self.nothing(index)[index]
        assert not messages
        if self.people[index].may_subscribe(pattern, group):
            assert not errors, errors
            self.people[index].subs[b"%d" % self.sid] = Sub(pattern, group)
        else:
            using = b' using queue "%b"' % group if group else b""
            assert errors == [
                b"'Permissions Violation for Subscription to \"%b\"%b'" % (pattern, using)
            ]

    def unsubscribe(self, index: int) -> None:
        subs = self.people[index].subs
        if subs:
            sid = list(subs)[self.taken.take() % len(subs)]
            del subs[sid]
            self.peers[index].send(b"UNSUB %b\r\n" % sid)
        self.nothing()

    def publish(self, index: int, what: int) -> None:
        subject = subject_of(self.taken, False)
        payload = b"%d" % len(self.past)
        reply = subject_of(self.taken, False) if what == ASK else b""
        full = b"$SEQ.PUB." + subject if what == NUMBERED else subject
        line = b" ".join(filter(None, (b"PUB", full, reply, b"%d" % len(payload))))
        self.peers[index].send(line + b"\r\n%b\r\n" % payload)
        heard = self.heard()
        person = self.people[index]
        allowed = person.may_publish(full)
        if (
            what == NUMBERED
            and allowed
            and not (person.rights is None or person.rights.publish.takes(subject))
        ):
            allowed = False
        errors = [error for _, some in heard for error in some]
        if not allowed:
            assert errors == [b"'Permissions Violation for Publish to \"%b\"'" % full], errors
            assert heard[index][1] == errors
            assert not any(messages for messages, _ in heard)
            return
        assert not errors, errors
        self.past.append((subject, payload))
        self.delivered(heard, subject, payload, reply)

    def delivered(
        self,
        heard: list[tuple[list[Heard], list[bytes]]],
        subject: bytes,
        payload: bytes,
        reply: bytes,
    ) -> None:
        """Check that each matching plain subscription, and one member per group, got it once."""
        got = {(at, sid) for at, (messages, _) in enumerate(heard) for _, sid, _ in messages}
        for messages, _ in heard:
            assert len({sid for _, sid, _ in messages}) == len(messages), "none twice"
            assert all(one[::2] == (subject, payload) for one in messages)
        groups: dict[bytes, set[tuple[int, bytes]]] = {}
        plain: set[tuple[int, bytes]] = set()
        for at, person in enumerate(self.people):
            for sid, sub in person.subs.items():
                if person.hears(sub, subject):
                    (groups.setdefault(sub.group, set()) if sub.group else plain).add((at, sid))
        for members in groups.values():
            assert len(got & members) == 1, "one of a group"
        assert plain <= got
        assert got <= plain.union(*groups.values())
        if reply:
            for at in sorted({at for at, _ in got}):
                self.people[at].got(reply)

    def replay(self, index: int) -> None:
        """Replay all past messages by `$SEQ.RANGE`, which ends by itself."""
        if not self.past:
            return
        pattern = subject_of(self.taken, True)
        subject = b"$SEQ.RANGE.1.%d.%b" % (len(self.past), pattern)
        self.peers[index].send(b"SUB %b past\r\n" % subject)
        messages, errors = self.nothing(index)[index]
        person = self.people[index]
        wanted = Sub(pattern, b"")
        if person.may_subscribe(subject, b"") and person.may_subscribe(pattern, b""):
            assert not errors, errors
            told = [one for one in messages if not one[0].startswith(b"$SEQ.")]
            expected = [one for one in self.past if person.hears(wanted, one[0])]
            assert [(one, payload) for one, _, payload in told] == expected
        else:
            assert not messages
            assert len(errors) == 1
            assert errors[0].startswith(b"'Permissions Violation for Subscription to ")

    def renew(self, index: int) -> None:
        """Reload other rights: subscriptions no longer allowed end, each with an error."""
        if index == CLIENTS - 1:
            return
        self.grant(index)
        person = self.people[index]
        lost = [
            sid
            for sid, sub in person.subs.items()
            if not person.may_subscribe(sub.pattern, sub.group)
        ]
        for sid in lost:
            del person.subs[sid]
        self.stage.control.recheck(self.peers[index].connection)
        messages, errors = self.nothing(index)[index]
        assert not messages
        assert len(errors) == len(lost)


def split(peer: Peer) -> tuple[list[Heard], list[bytes]]:
    """Return a peer's messages and errors since the last call."""
    messages, errors = [], []
    for verb, one in parse(peer.take()):
        if verb == b"MSG":
            messages.append(one)
        else:
            assert verb == b"-ERR"
            errors.append(one[0])
    return messages, errors


def parse(text: bytes) -> Iterator[tuple[bytes, Heard]]:
    while text:
        line, _, text = text.partition(b"\r\n")
        verb, _, rest = line.partition(b" ")
        if verb != b"MSG":
            yield verb, (rest, b"", b"")
            continue
        words = rest.split(b" ")
        size = int(words[-1])
        yield verb, (words[0], words[1], text[:size])
        text = text[size + 2 :]


def check(data: bytes) -> None:
    """Run one program."""
    world = World(Supply(data))
    world.run()
    for peer in world.peers:  # the garbage collector does not track subscriptions
        peer.leave()
    world.stage.loop.run()
