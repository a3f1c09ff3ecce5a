"""Redis beside a broker: each answer, each delivery and each entry is counted.

The stub is no stand-in for a Redis: it makes the mistakes that a run must see. Where there is a
redis-server, the same runs count on it.
"""

import shutil
from pathlib import Path

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.redis import run_redis
from benchmarks.scenarios import Flood, Storing
from benchmarks.servers import KNOWN, Server

FEW = Storing(name="x", about="", messages=3000, size=100)


def stub(fault: str) -> Server:
    script = Path(__file__).with_name("stub_redis.py")
    return Server("stub", "none", f"{{bin}}/python '{script}' {{port}} {fault}", takes="redis")


SERVERS = [stub("none"), *([KNOWN["redis"]] if shutil.which("redis-server") else [])]


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
def test_given_a_redis_when_entries_are_added_then_all_are_counted(server: Server) -> None:
    sample = run_redis(FEW, server)
    assert sample.messages >= 3000
    assert sample.kept_percent == 100
    assert sample.server_cpu_seconds > 0


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
@pytest.mark.parametrize("subscribers", [0, 2])
def test_given_a_redis_when_published_then_every_subscriber_gets_each(
    server: Server, subscribers: int
) -> None:
    flood = Flood(name="x", about="", messages=3000, size=100, subscribers=subscribers)
    sample = run_redis(flood, server)
    assert sample.deliveries == subscribers * sample.messages


@pytest.mark.parametrize(("fault", "said"), [("lose", "entries were added"), ("refuse", "ERR no")])
def test_given_a_redis_that_errs_when_run_then_the_run_is_an_error(fault: str, said: str) -> None:
    with pytest.raises(BenchmarkError, match=said):
        run_redis(FEW, stub(fault))
