"""A consumer's configuration, beside nats-server's own: the same requests, the same answers."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.streams.api_errors import ApiError
from broker.streams.consumer_config import (
    ConsumerConfig,
    StreamRules,
    read_config,
    read_create,
)
from broker.version import NATS_VERSION
from tests.support.depth import depth
from tests.support.processes import NatsServer
from tests.support.raw import HEADERS, RawClient

SECOND = 1_000_000_000
RULES = StreamRules(subjects=("s.>",))
Answer = dict[str, Any]
Case = tuple[str, bytes]  # what follows `$JS.API.CONSUMER.`, and the request


class Ours:
    """The API's part of CREATE, over one stream named S."""

    def __init__(self, rules: StreamRules = RULES) -> None:
        self.rules = rules
        self.consumers: dict[str, ConsumerConfig] = {}

    def answer(self, subject: str, text: bytes) -> Answer:
        try:
            return {"config": self._create(subject, text).shown(NATS_VERSION)}
        except ApiError as error:
            return {"error": error.fields()}

    def _create(self, subject: str, text: bytes) -> ConsumerConfig:
        request = read_create(text)
        if subject.startswith("DURABLE.CREATE."):
            legacy, parts = "durable", subject.removeprefix("DURABLE.CREATE.").split(".", 2)
        else:
            parts = subject.removeprefix("CREATE.").split(".", 2)
            legacy = "" if len(parts) > 1 else "ephemeral"
        stream, name, filters = (*parts, "", "")[:3]
        request.check_place(stream, name, filters, legacy)
        others = [one for other, one in self.consumers.items() if other != name]
        config = request.resolve(self.consumers.get(name), self.rules, others)
        if name:
            self.consumers[name] = config
        return config


class Theirs:
    """nats-server, with one stream named S."""

    def __init__(self, client: RawClient, stream: Answer) -> None:
        self.client = client
        client.send(b"SUB inbox 1\r\n")
        self.ask("STREAM.DELETE.S", b"")
        # It may still be removing the files of the stream that it has just deleted.
        while "error" in (made := self.ask("STREAM.CREATE.S", json.dumps(stream).encode())):
            assert made["error"]["description"] == "error creating store for stream"

    def ask(self, subject: str, text: bytes) -> Answer:
        head = f"PUB $JS.API.{subject} inbox {len(text)}\r\n".encode()
        self.client.send(head + text + b"\r\n")
        answer: Answer = json.loads(self.client.operation().payload)
        return answer

    def answer(self, subject: str, text: bytes) -> Answer:
        answer = self.ask("CONSUMER." + subject, text)
        if "error" in answer:
            return {"error": answer["error"]}
        answer["config"]["metadata"]["_nats.level"] = "1"  # ours is lower
        return {"config": answer["config"]}


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    store: Path = tmp_path_factory.mktemp("jetstream")
    with (
        NatsServer(more=f'jetstream {{ store_dir: "{store}" }}\n') as server,
        RawClient(server.port, HEADERS.replace(b',"no_responders":true', b"")) as client,
    ):
        yield client


def same(ours: Ours, theirs: Theirs, case: Case) -> None:
    mine, other = ours.answer(*case), theirs.answer(*case)
    assert mine == other, case
    assert json.dumps(mine) == json.dumps(other), ("another order", case)


def config(**fields: object) -> bytes:
    return json.dumps({"stream_name": "S", "config": fields}).encode()


TEXTS = [  # the JSON of CREATE.S.C
    *(b"", b"null", b"[]", b'"x"', b"5", b"{", b'{"a"', b'{"a":', b'{"stream_name":"S"'),
    *(b'{"stream_name":"S"}}', b'{"stream_name":"S"} x', b"x", b"{x", b'{"a" 5}', b"\xff{}"),
    *(b'{"stream_name":"S",}', b'{"stream_name":"a\nb"}', b'{"stream_name":"\\q"}', b"{'a':1}"),
    *(b'{"stream_name":nu}', b'{"stream_name":01}', b'{"stream_name":-}', b'{"stream_name":1.}'),
    *(b'{"stream_name":1e}', b'{"config":[1 2]}', b'{"stream_name":"\\u12x"}', b'{"a":"\x80"}'),
    *(b'{"stream_name":nul', "é".encode(), "{é".encode(), '["a" é]'.encode(), b'{"stream_name":5}'),
    *(b'{"stream_name":"S","action":"x"}', b'{"stream_name":"S","action":5}', b'{"a\\"b<>":1}'),
    *(b'{"stream_name":"S","pedantic":5}', b'{"stream_name":"S","frob":5}', b'{"e":1e}', b"[1,]"),
    b'{"stream_name":"S","config":{"Frob":5,"max_deliver":"x"}}',
    b'{"stream_name":"S","config":{"max_deliver":"x","Frob":5}}',
    b'{"stream_name":"S","config":{"MAX_DELIVER":"x"}}',
    b'{"stream_name":"S"} {"config":{"description":"d"}}',
    b'{"stream_name":"S","config":{"description":"d"},"config":{"max_batch":3}}',
    b'{"stream_name":"S","config":null}',
    b'{"stream_name":"S","config":[]}',
    b'{"stream_name":"S","config":{"description":"a\\ud800b"}}',
    b'{"stream_name":"S","config":{"backoff":null,"ack_policy":"all","metadata":null}}',
    b'{"stream_name":"S","config":{"ack_wait":1e3}}',
    b'{"stream_name":"S","config":{"opt_start_seq":99999999999999999999999}}',
]
VALUES: dict[str, tuple[object, ...]] = {  # fields of a config, with good and bad values
    "max_deliver": ("x", 1.5, [], {}, True, None, 1 << 63, -5, 0, 7),
    "opt_start_seq": ("x", -1, 1 << 64),
    "description": (5, True, ["a"], {}, "x" * 4096, "x" * 4097),
    "filter_subjects": (
        *("a", [1], ["a", []], [""], ["s.1"] * 2, ["s.*", "s.1"]),
        *(["b.x", "a.y"], [], ["a.", "b"], ["a", "a.>"]),
    ),
    "backoff": ([1, "a"], {}, [-1], [5, 6], [0]),
    "metadata": (
        *({"a": 1}, [], "x", {"": "b"}, {"a": "b", "_nats.foo": "y"}),
        {"_nats.ver": "x", "_nats.level": "9", "<": ">"},
    ),
    "deliver_policy": (
        *("x", 5, None, "undefined", "", "last", "new"),
        *("last_per_subject", "by_start_sequence", "by_start_time"),
    ),
    "ack_policy": ("x", 7, "none", "all", "explicit"),
    "replay_policy": ("x", "original", [1]),
    "opt_start_time": (
        *("x", 5, "", "2020-01-01T00:00:00+02:00", "2020-13-01T00:00:00Z"),
        *("2020-01-01 00:00:00Z", "2020-02-30T00:00:00Z", "2020-02-20T25:00:00Z"),
        *("2020-2-20T05:01:00Z", "2020-02-20T5:01:00Z", "2020-02-20T05:01:61Z"),
        *("2020-02-20T05:01:00+25:00", "2020-02-20T05:01:00", "2020-02-20T05:01:00Zx"),
    ),
    "flow_control": ("yes", 1, True),
    "sample_freq": ("x", "5%", "-1", "99999999999999999999", "+5", ""),
    "deliver_subject": ("a..b", "a b", "d", "d.*", "s.1", "x.>", ">"),
    "filter_subject": ("a b", "a..b", "s.1", ">", "a.>.b"),
    "num_replicas": (2, -2, 1),
    "pause_until": (
        *("x", "0001-01-01T00:00:00Z", "2030-01-01T00:00:00-05:30"),
        "2030-01-01T00:00:00.120Z",
    ),
    "idle_heartbeat": (5, SECOND, -1),
    "max_expires": (5, SECOND, -1),
    "rate_limit_bps": (5, -1),
    "durable_name": ("C", "D", "a b"),
    "name": ("C", "D", "a.b"),
    "ack_wait": (-5, 5),
    "max_waiting": (-5, 5, []),
    "max_ack_pending": (-5, 5, -1),
    "direct": (True, False),
    "priority_groups": ([],),
    "priority_policy": ("none", "x"),
    "sourcing": (False, 5),
}
PLACES: list[Case] = [
    ("CREATE.S", config(name="a.b")),
    ("CREATE.S", config(name="a\tb")),
    ("CREATE.S", config(durable_name="ab")),
    ("CREATE.S", config(ack_policy="explicit")),
    ("CREATE.S.a/b", config()),
    ("CREATE.S.a\\b", config()),
    ("CREATE.S.D", b'{"stream_name":"T","config":{}}'),
    ("DURABLE.CREATE.S.D", config()),
    ("DURABLE.CREATE.S.D", config(durable_name="E")),
    ("DURABLE.CREATE.S.D", config(durable_name="D", name="F")),
    ("DURABLE.CREATE.S.D", config(durable_name="D")),
    ("CREATE.S.C.s.b", config(filter_subjects=["s.b"])),
    ("CREATE.S.C.s.b", config(filter_subject="s.c")),
    ("CREATE.S.C.s.b", config(filter_subject="s.b")),
    ("CREATE.S." + "x" * 256, config(durable_name="x" * 256)),
]


def test_given_texts_when_read_then_nats_server_says_the_same(nats: RawClient) -> None:
    theirs = Theirs(nats, {"name": "S", "subjects": ["s.>"]})
    for text in TEXTS:
        same(Ours(), theirs, ("CREATE.S.C", text))
        theirs.ask("CONSUMER.DELETE.S.C", b"")


def test_given_fields_when_checked_then_nats_server_says_the_same(nats: RawClient) -> None:
    theirs = Theirs(nats, {"name": "S", "subjects": ["s.>"]})
    for name, values in VALUES.items():
        for value in values:
            same(Ours(), theirs, ("CREATE.S.C", config(**{name: value})))
            theirs.ask("CONSUMER.DELETE.S.C", b"")


def test_given_subjects_when_a_request_is_for_them_then_nats_server_says_the_same(
    nats: RawClient,
) -> None:
    theirs = Theirs(nats, {"name": "S", "subjects": ["s.>"]})
    for case in PLACES:
        same(Ours(), theirs, case)
        for name in ("C", "D"):
            theirs.ask(f"CONSUMER.DELETE.S.{name}", b"")


# No empty list: to nats-server one is another than none, when it compares two configs.
CHOICES: dict[str, tuple[object, ...]] = {
    "description": ("", "text"),
    "deliver_policy": ("all", "last", "new", "last_per_subject", "by_start_sequence"),
    "opt_start_seq": (0, 0, 5),
    "opt_start_time": ("2020-01-01T00:00:00Z", "2020-01-01T01:00:00+01:00"),
    "ack_policy": ("explicit", "explicit", "none", "all"),
    "ack_wait": (SECOND, 0, -1),
    "max_deliver": (-1, 1, 2, 5),
    "backoff": ([SECOND], [SECOND, 2 * SECOND], [5, 6, 7]),
    "filter_subject": ("", "s.1", "s.*", ">"),
    "filter_subjects": (["s.1", "s.2"], ["s.1", "s.*"]),
    "replay_policy": ("instant", "original"),
    "rate_limit_bps": (0, 8000),
    "sample_freq": ("", "50%"),
    "max_waiting": (0, 0, 5, 512),
    "max_ack_pending": (0, 5, -1, 1000),
    "flow_control": (False, True),
    "headers_only": (False, True),
    "max_batch": (0, 5),
    "max_expires": (0, 5, SECOND),
    "max_bytes": (0, 1000),
    "deliver_subject": ("d", "d", "s.x"),
    "deliver_group": ("", "g"),
    "idle_heartbeat": (0, SECOND, SECOND, 5),
    "inactive_threshold": (0, 60 * SECOND, -1),
    "num_replicas": (0, 1),
    "mem_storage": (False, True),
    "direct": (False, False, False, True),
    "metadata": ({}, {"a": "b"}),
    "pause_until": ("2036-01-01T00:00:00Z", "2036-01-01T01:00:00.5+01:00"),
    "durable_name": ("C", "C", "D"),
}


@pytest.mark.parametrize("retention", ["limits", "workqueue"])
def test_given_random_configs_when_created_and_updated_then_nats_server_says_the_same(
    nats: RawClient, retention: str
) -> None:
    draw = random.Random(7)
    stream: Answer = {"name": "S", "subjects": ["s.>"], "retention": retention}
    stream["consumer_limits"] = {"max_ack_pending": 800, "inactive_threshold": 30 * SECOND}
    theirs = Theirs(nats, stream)
    rules = StreamRules(("s.>",), retention, 800, 30 * SECOND)
    made = 0
    for _ in range(depth(250, 5000)):
        ours = Ours(rules)
        fields: dict[str, object] = {}
        for _ in range(3):
            names = draw.sample(sorted(CHOICES), draw.randrange(1, 7))
            fields = {**fields, **{name: draw.choice(CHOICES[name]) for name in names}}
            if draw.random() < 0.3:
                fields.pop(draw.choice(sorted(fields)))
            request: dict[str, object] = {"stream_name": "S", "config": fields}
            if draw.random() < 0.4:
                request["action"] = draw.choice(["create", "update", ""])
            if draw.random() < 0.1:
                request["pedantic"] = True
            same(ours, theirs, ("CREATE.S.C", json.dumps(request).encode()))
        made += len(ours.consumers)
        theirs.ask("CONSUMER.DELETE.S.C", b"")
    assert made >= 5


def test_given_configs_when_kept_and_read_then_they_are_the_same() -> None:
    text = config(
        durable_name="C",
        ack_policy="explicit",
        backoff=[5, 6],
        filter_subjects=["b", "a"],
        deliver_policy="by_start_time",
        opt_start_time="2020-01-01T00:00:00.25+02:00",
        pause_until="2030-01-01T00:00:00Z",
        metadata={"b": "c"},
    )
    made = read_create(text).resolve(None, StreamRules())
    kept = json.loads(json.dumps(made.fields()))
    assert read_config(kept) == made


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"ack_policy": "explicit", "max_ack_pending": 65_537}, 10121),
        ({"filter_subjects": [f"s.{number}" for number in range(257)]}, 10094),
        ({"metadata": {"a": "b" * (16 << 10)}}, 10135),
        ({"deliver_subject": "$JS.x"}, 10081),
        ({"priority_policy": "overflow"}, 10025),
        ({"priority_groups": ["a"]}, 10025),
        ({"priority_timeout": 1}, 10025),
        ({"sourcing": True}, 10025),
        ({"ack_policy": "flow_control"}, 10025),
        ({"name": "x" * 256}, 10102),
    ],
)
def test_given_what_seriatim_bounds_or_lacks_when_asked_for_then_refused(
    fields: dict[str, object], number: int
) -> None:
    name = str(fields.get("name", "C"))
    answer = Ours().answer(f"CREATE.S.{name}", config(**fields))
    assert answer["error"]["err_code"] == number
