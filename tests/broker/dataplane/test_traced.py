"""A message that is only traced gets no number, whichever way it comes."""

import pytest

from broker.dataplane.traced import is_trace_only
from testkit.model_frame import split_frame
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import HEADERS, RawClient
from tests.wire.cases_traced import BOTH, hpub

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")


def test_given_a_message_only_to_be_traced_then_numbers_go_on_without_it() -> None:
    with SeriatimServer("netstring") as broker, RawClient(broker.port, HEADERS) as client:
        client.send(b"SUB a 1\r\nSUB $SEQ.FROM.1.> 2\r\nSUB box.* 3\r\n")
        said = client.ask(b"PUB a 1\r\nx\r\n" + hpub(BOTH) + b"PUB a 1\r\ny\r\n")
        assert [split_frame(one.payload) for one in said if one.sid == b"1"] == [
            (1, b"x"),
            (2, b"y"),
        ]
        said = client.ask(hpub(BOTH, b"$SEQ.PUB.a", reply=b"box.1"))
        (answer,) = (one for one in said if one.sid == b"3")
        assert answer.header.startswith(b"NATS/1.0 400 Nats-Trace-Only: Not Published\r\n")
        said = client.ask(hpub(BOTH, b"$SEQ.INFO", reply=b"box.2"))
        assert [one.header[:12] for one in said if one.sid == b"3"] == [b"NATS/1.0 400"]
        said = client.ask(b"PUB $SEQ.PUB.a box.3 1\r\nz\r\n")
        assert [one.payload for one in said if one.sid == b"3"] == [b"1:3,"]


def test_given_headers_then_only_those_of_a_trace_alone_are_found() -> None:
    assert is_trace_only(BOTH)
    assert not is_trace_only(b"")
    assert not is_trace_only(b"NATS/1.0\r\n\r\n")
    assert not is_trace_only(BOTH.replace(b"true", b"no"))
