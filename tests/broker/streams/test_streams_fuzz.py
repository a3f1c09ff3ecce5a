"""Requests, configurations and acks from a grammar that lies: each is answered, and harms nobody.

For every input: an answer in JSON with a known error or a success, a status, or an empty
confirmation; nothing in the log above a warning. An application beside it publishes, fetches and
acknowledges as if it were alone. At the end all is deleted, and memory is where it was.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.streams import consumer_config, stream_config
from tests.attacks.footprint import MIB, footprint
from tests.support.depth import depth
from tests.support.jetstream import Dialogue, Step, request
from tests.support.processes import SeriatimServer
from tests.support.raw import Operation

ROUNDS = depth(40, 1500)
AT_ONCE = 40  # requests of a round
GROWTH = 12 * MIB
UNEXPECTED = 10051  # what a request that raised something else is answered with
API = "$JS.API."
STREAMS = ("F", "G", "H", "NONE", "a b", "é", "x" * 300, "")
CONSUMERS = ("c", "d", "e", "none", "*", ">", "x" * 300, "")
# The action, and how many names follow.
ACTIONS = {
    "INFO": 0,
    **dict.fromkeys(("STREAM.NAMES", "STREAM.LIST"), 0),
    **dict.fromkeys(("STREAM.CREATE", "STREAM.UPDATE", "STREAM.INFO", "STREAM.PURGE"), 1),
    **dict.fromkeys(("STREAM.DELETE", "STREAM.MSG.GET", "STREAM.MSG.DELETE"), 1),
    **dict.fromkeys(("STREAM.SNAPSHOT", "STREAM.RESTORE", "STREAM.PEER.REMOVE"), 1),
    **dict.fromkeys(("CONSUMER.NAMES", "CONSUMER.LIST", "CONSUMER.CREATE"), 1),
    **dict.fromkeys(("CONSUMER.CREATE", "CONSUMER.INFO", "CONSUMER.DELETE", "CONSUMER.PAUSE"), 2),
    **dict.fromkeys(("CONSUMER.RESET", "CONSUMER.UNPIN", "CONSUMER.DURABLE.CREATE"), 2),
    "CONSUMER.MSG.NEXT": 2,
    "DIRECT.GET": 1,
}
FREQUENT = ("STREAM.CREATE", "STREAM.UPDATE", "CONSUMER.CREATE", "CONSUMER.MSG.NEXT")
FIELDS = {
    "stream": [*stream_config.KINDS, *stream_config.UNKNOWN, "frob"],
    "consumer": [*consumer_config.KINDS, *consumer_config.UNSUPPORTED, "frob"],
    "request": [
        *("seq", "batch", "expires", "max_bytes", "no_wait", "idle_heartbeat", "offset"),
        *("subject", "filter", "keep", "last_by_subj", "next_by_subj", "start_time", "multi_last"),
        *("up_to_seq", "up_to_time", "no_hdr", "deleted_details", "subjects_filter", "pause_until"),
    ],
}
BIG = (2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30)
NUMBERS = (0, 1, 2, 5, 100, -1, -5, 1.5, 1e300, -(2**63), *BIG, 10**6, 10**9)
TEXTS = ("", "f.>", "f.1", "g.*", "*", ">", "..", "f..1", "a b", "é", "\ud800", "\x00", "x" * 5000)
WORDS = ("none", "all", "explicit", "last", "new", "by_start_sequence", "by_start_time", "limits")
TIMES = ("2030-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-99-99T")
BOOLS = (True, False)
ARABIC_ONE = chr(0x661)  # a digit for Python, and none for the protocol
FITTING: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("deliver_policy", "ack_policy", "retention"), WORDS),
    **dict.fromkeys(("no_ack", "allow_direct", "sealed", "deny_delete", "flow_control"), BOOLS),
    **dict.fromkeys(("headers_only", "mem_storage", "direct", "no_wait", "no_hdr"), BOOLS),
    **dict.fromkeys(("deleted_details", "deny_purge", "mirror_direct"), BOOLS),
    **dict.fromkeys(("opt_start_time", "pause_until", "start_time", "up_to_time"), TIMES[:3]),
    **dict.fromkeys(("filter_subject", "deliver_subject", "subjects_filter"), TEXTS[1:6]),
    **dict.fromkeys(("subject", "filter", "last_by_subj", "next_by_subj"), TEXTS[1:6]),
    **dict.fromkeys(("filter_subjects", "multi_last", "subjects"), (["f.>"], ["f.1", "f.2"], [])),
    "replay_policy": ("instant", "original"),
    "backoff": ([10**8], [10**6, 10**7], []),
    "storage": ("file", "memory"),
    "metadata": ({}, {"a": "b"}, {"seriatim.hold": "on"}),
    **dict.fromkeys(("name", "durable_name", "deliver_group", "description"), ("c", "d", "F", "")),
}
RAW = (
    *(b"", b"{", b"}", b"[]", b"null", b"1", b"-1", b'"x"', b"{}{}"),
    *(b'{"a":}', b"\xff\xfe", b"nan"),
    *(b"[" * 5000, b'{"config":' * 3000, b'{"seq":' + b"9" * 5000 + b"}", b"+5", b"5.5", b" 5 "),
    *(b"99999999999999999999", b'{"batch":1e3}', b'{"seq":1,"seq":2}', b"\x00" * 100),
)
ACKS = (
    *(b"", b"+ACK", b"+OK", b"-NAK", b"+WPI", b"+TERM", b"+TERM why", b"+NXT", b"+NXT 5", b"x"),
    *(b'-NAK {"delay": 1000000}', b'-NAK {"delay": -1}', b'-NAK {"delay": 1e400}', b"-NAK 1.5s"),
    *(b"-NAK " + b"9" * 400 + b"h", b"-NAK {", b'+NXT {"batch":-1}', b"+NXT -5"),
    b"+NXT " + b"9" * 400,
    *(b'+NXT {"expires":99999999999999999999}', b"\xff" * 300, b"+ACK\x00"),
)


class Grammar:
    """Draws requests; a seed gives the same ones again."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.acks: list[str] = []  # the ack subjects of what was delivered, to be forged

    def value(self, depth: int = 0) -> Any:
        draw = self.random.randrange(9 if depth < 3 else 6)
        if draw < 2:
            return self.random.choice(NUMBERS)
        if draw < 4:
            return self.random.choice(TEXTS + WORDS + TIMES)
        if draw == 4:
            return self.random.choice((True, False))
        if draw == 5:
            return None
        if draw == 6:
            return {self.random.choice(TEXTS): self.value(depth + 1) for _ in range(2)}
        most = 300 if depth == 0 else 3
        return [self.value(depth + 1) for _ in range(self.random.choice((0, 1, 2, most)))]

    def fields(self, kind: str, right: dict[str, Any]) -> dict[str, Any]:
        """A right object, in which some fields are of any kind."""
        found = dict(right)
        for _ in range(self.random.choice((0, 1, 2, 3, 5))):
            name = self.random.choice(FIELDS[kind])
            found[name] = self.fitting(name) if self.random.random() < 0.9 else self.value()
        return found

    def fitting(self, name: str) -> Any:
        """A value of the kind that a field has, as far as its name tells."""
        kind = FITTING.get(name)
        if kind is None:
            return self.random.choice((0, 1, 5, 10**8, 10**9, 60 * 10**9))
        return self.random.choice(kind)

    def body(self, action: str, names: list[str]) -> bytes:
        if self.random.random() < 0.15:
            return self.random.choice(RAW)
        if action in ("STREAM.CREATE", "STREAM.UPDATE"):
            subjects = {"F": ["f.>"], "G": ["g.*", "g2.>"], "H": ["h"]}.get(names[0], ["other"])
            right = {"name": names[0], "subjects": subjects, "allow_direct": True}
            return self.text(self.fields("stream", right))
        if action in ("CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE"):
            right = {"ack_policy": "explicit", "filter_subject": ""}
            if len(names) > 1:
                right["name"] = names[1]
            if action == "CONSUMER.DURABLE.CREATE" or self.random.random() < 0.5:
                right["durable_name"] = names[-1]
            config = self.fields("consumer", right)
            asked = {"stream_name": names[0], "config": config, "action": ""}
            if self.random.random() < 0.1:
                asked[self.random.choice(("action", "config", "pedantic", "frob"))] = self.value()
            return self.text(asked)
        if action == "CONSUMER.MSG.NEXT":
            right = {"batch": 3, "no_wait": True}
            return self.text(self.fields("request", right))
        if self.random.random() < 0.4:
            return b""
        return self.text(self.fields("request", {}))

    def text(self, value: Any) -> bytes:
        written = json.dumps(value).encode()
        if self.random.random() < 0.05:
            at = self.random.randrange(len(written))
            written = written[:at] + self.random.randbytes(2) + written[at + 1 :]
        return written

    def step(self) -> Step:
        if self.acks and self.random.random() < 0.3:
            return Step(self.forged(), self.random.choice(ACKS))
        action = self.random.choice((*ACTIONS, *FREQUENT, *FREQUENT))
        count = ACTIONS[action]
        names = [self.name(kind) for kind in (STREAMS, CONSUMERS)[:count]]
        if action == "CONSUMER.CREATE" and self.random.random() < 0.3:
            names = names[:1] if self.random.random() < 0.3 else [*names, "f.1"]
        headers = None
        if self.random.random() < 0.05:
            headers = {"Nats-Required-Api-Level": str(self.random.choice(NUMBERS))}
        return Step(".".join((API + action, *names)), self.body(action, names), headers)

    def name(self, known: tuple[str, ...]) -> str:
        name = known[0] if self.random.random() < 0.7 else self.random.choice(known)
        return name.replace(" ", "_") or "_"  # a subject has no spaces, and no empty tokens

    def forged(self) -> str:
        """An ack subject that was delivered, with something else in it."""
        tokens = self.random.choice(self.acks).split(".")
        for _ in range(self.random.choice((0, 1, 1, 3))):
            at = self.random.randrange(2, len(tokens))
            tokens[at] = str(
                self.random.choice((*NUMBERS, "c", "d", "F", "é", "-", "1_0", ARABIC_ONE))
            )
        if self.random.random() < 0.1:
            tokens = tokens[: self.random.randrange(3, len(tokens))]
        if self.random.random() < 0.1:
            tokens = [*tokens[:2], "domain", "account", *tokens[2:], "token"]
        return ".".join(tokens).replace("..", ".")


class Application:
    """A stream and a durable consumer of its own, used as if nobody else were there."""

    def __init__(self, port: int) -> None:
        self.dialogue = Dialogue(port)
        self.count = 0
        config = {"ack_policy": "explicit", "durable_name": "good"}
        for subject, body in (
            ("STREAM.CREATE.GOOD", {"name": "GOOD", "subjects": ["good"]}),
            ("CONSUMER.DURABLE.CREATE.GOOD.good", {"stream_name": "GOOD", "config": config}),
        ):
            assert b"error" not in self.dialogue.ask(Step(API + subject, body))[0].payload

    def work(self) -> None:
        text = b"message %d" % self.count
        self.count += 1
        (ack,) = self.dialogue.ask(Step("good", text))
        assert b'"stream":"GOOD"' in ack.payload, ack
        (message,) = self.dialogue.ask(Step(API + "CONSUMER.MSG.NEXT.GOOD.good", "1"))
        assert message.payload == text
        assert self.dialogue.ask(Step(f"#{len(self.dialogue.acks) - 1}"))[0].payload == b""


def judge(step: Step, answer: Operation) -> None:
    """Fail unless this is an answer that the API has."""
    if answer.header.startswith(b"NATS/1.0") or not answer.payload:
        return  # a status, a message by direct get, a confirmation
    if step.subject.startswith(API + "DIRECT.GET"):
        return  # a message, as `no_hdr` wants it
    assert answer.payload.startswith(b"{"), (step, answer)
    said = json.loads(answer.payload)
    assert said["type"].startswith("io.nats.jetstream.api.v1."), (step, said)
    if "error" in said:
        error = said["error"]
        assert 10000 < error["err_code"] < 10300, (step, said)
        assert error["err_code"] != UNEXPECTED, (step, said)
        assert error["description"], (step, said)


def needs_answer(step: Step) -> bool:
    """True if the broker has to say something; a pull request may wait, as nats-server's does."""
    if step.subject.startswith(API):
        return "CONSUMER.MSG.NEXT" not in step.subject
    return False


def run_round(dialogue: Dialogue, grammar: Grammar, number: int) -> None:
    steps = [grammar.step() for _ in range(AT_ONCE)]
    inbox = f"{dialogue.inbox}.{number}"
    sent = b"".join(request(step, f"{inbox}.{at}") for at, step in enumerate(steps))
    dialogue.client.send(sent + b"PUB f.1 1\r\nx\r\nPUB g.1 0\r\n\r\nPING\r\n")
    open_steps = {at for at, step in enumerate(steps) if needs_answer(step)}
    is_over = False
    while open_steps or not is_over:
        operation = dialogue.client.operation()
        assert operation.verb in ("PONG", "MSG", "HMSG"), operation
        if operation.verb == "PONG":
            is_over = True
        elif operation.reply.startswith(b"$JS.ACK."):
            grammar.acks = [*grammar.acks[-50:], operation.reply.decode()]
        elif operation.subject.startswith(inbox.encode()):
            at = int(operation.subject.rpartition(b".")[2])
            judge(steps[at], operation)
            open_steps.discard(at)


def clear(dialogue: Dialogue) -> None:
    """Delete all streams but the application's; some names of the grammar are odd, and valid."""
    (told,) = dialogue.ask(Step(API + "STREAM.NAMES"))
    for name in json.loads(told.payload)["streams"]:
        if name != "GOOD":
            (answer,) = dialogue.ask(Step(f"{API}STREAM.DELETE.{name}"))
            assert json.loads(answer.payload).get("success"), answer


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SeriatimServer]:
    with SeriatimServer(arguments=["--jetstream"], store=tmp_path / "store") as process:
        yield process


@pytest.mark.parametrize("seed", [1, 2])
def test_given_requests_and_acks_that_lie_then_each_is_answered_and_nobody_is_harmed(
    seed: int, broker: SeriatimServer
) -> None:
    application, dialogue, grammar = Application(broker.port), Dialogue(broker.port), Grammar(seed)
    dialogue.client.widen()
    before = 0
    for number in range(ROUNDS):
        run_round(dialogue, grammar, number)
        if number % 10 == 9:
            application.work()
        if number % 20 == 19:
            clear(application.dialogue)
        if number == ROUNDS // 2:
            before = footprint(broker.pid).memory
    clear(application.dialogue)
    application.work()
    assert footprint(broker.pid).memory <= before + GROWTH
    (told,) = application.dialogue.ask(Step(API + "INFO"))
    account = json.loads(told.payload)
    assert (account["streams"], account["consumers"]) == (1, 1)
    for one in (application.dialogue, dialogue):
        one.close()
    wrong = [line for line in broker.log if "[ERR]" in line or "Traceback" in line]
    assert not wrong, wrong[:5]
