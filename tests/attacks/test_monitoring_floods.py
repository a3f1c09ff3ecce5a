"""Floods of requests to the monitoring port, whole and half."""

from pathlib import Path

from tests.attacks.beside import beside
from tests.attacks.crowd import Dialled, crowd, is_answered, send_all, until
from tests.support.depth import depth
from tests.support.jetstream import Dialogue, Step, request
from tests.support.raw import QUIET
from tests.support.web import get, http_port

TIMES = depth(2, 100)
AT_ONCE = 100
CLIENTS = depth(250, 500)
CONSUMERS = depth(1000, 2000)
PATHS = (
    *(b"/connz?subs=detail&limit=10000", b"/subsz?subs=1&limit=10000", b"/metrics", b"/varz"),
    b"/jsz?consumers=1&config=1&consumers_limit=10000",
)
BAD = (
    b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"GET /varz HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    b"GET /connz?limit=99999999999999999999&subs=%00%0a HTTP/1.0\r\n\r\n",
    b"POST /varz HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.0\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    b"\x00" * 10_000,
    b"GET /varz HTTP/1.1\r\nHost: x",
)


def make_consumers(port: int) -> None:
    """A stream with many consumers."""
    dialogue = Dialogue(port)
    dialogue.ask(Step("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]}))
    for first in range(0, CONSUMERS, AT_ONCE):
        for at in range(first, first + AT_ONCE):
            config = {"name": f"c{at}", "inactive_threshold": 120 * 10**9}
            step = Step(f"$JS.API.CONSUMER.CREATE.S.c{at}", {"stream_name": "S", "config": config})
            dialogue.client.send(request(step, f"{dialogue.inbox}.made"))
        for _ in range(AT_ONCE):
            dialogue.client.operation()
    dialogue.close()


def test_given_requests_in_a_flood_when_half_and_whole_then_clients_and_checks_are_served(
    tmp_path: Path,
) -> None:
    subs = QUIET + b"".join(b"SUB flood.%d %d\r\n" % (at, at) for at in range(20)) + b"PING\r\n"
    with (
        beside(tmp_path, "", "--jetstream") as broker,
        crowd(broker.port, CLIENTS) as clients,
    ):
        make_consumers(broker.port)
        send_all(clients, subs)
        until(clients, is_answered)
        port = http_port(broker.process)
        for _ in range(TIMES):
            made = [Dialled(port) for _ in range(AT_ONCE)]
            for at, one in enumerate(made):
                path = PATHS[at % len(PATHS)]
                wish = BAD[at % len(BAD)] if at % 2 else b"GET %b HTTP/1.0\r\n\r\n" % path
                send_all([one], wish)
            assert get(port, "/healthz").status == 200
            for one in made:
                one.reset()
        dialogue = Dialogue(broker.port)
        dialogue.ask(Step("$JS.API.STREAM.DELETE.S"))
        dialogue.close()
