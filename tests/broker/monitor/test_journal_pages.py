"""/journalz, /replayz and /recentz: the past, who reads it, and what is busy."""

import pytest

from broker.monitor.page.recent_subjects import MESSAGES_MAX, SUBJECTS_MAX
from tests.support.raw import QUIET, RawClient
from tests.support.web import get, http_port, monitored


@pytest.mark.parametrize("store", ["disk", "memory"])
def test_given_a_journal_then_its_page_shows_segments_newest_first(store: str) -> None:
    own = ["--segment_bytes", "1MiB"] if store == "disk" else ["--no_journal"]
    with monitored("netstring", *own) as process:
        client = RawClient(process.port, QUIET)
        for _ in range(8):
            client.ask(b"PUB a 500000\r\n%b\r\n" % bytes(500_000))
        page = get(http_port(process), "/journalz").json
        assert (page["store"], page["last"]) == (store, 8)
        assert page["num_segments"] == len(page["segments"]) > 1
        firsts = [one["first"] for one in page["segments"]]
        assert firsts == sorted(firsts, reverse=True)
        assert firsts[-1] == page["first"]
        for newer, older in zip(page["segments"], page["segments"][1:], strict=False):
            assert older["last"] + 1 == newer["first"]
        second = get(http_port(process), "/journalz?offset=1&limit=1").json
        assert second["segments"] == page["segments"][1:2]
        client.close()


def test_given_a_replay_whose_client_does_not_read_then_it_is_listed_and_how_far_behind() -> None:
    with monitored("netstring") as process:
        client = RawClient(process.port, QUIET)
        for _ in range(40):
            client.ask(b"PUB a 500000\r\n%b\r\n" % bytes(500_000))
        deaf = RawClient(process.port, QUIET, b"SUB $SEQ.FROM.1.a 1\r\n")
        while not (page := get(http_port(process), "/replayz").json)["replays"] or (
            page["replays"][0]["state"] != "parked"
        ):
            pass
        (one,) = page["replays"]
        assert (one["kind"], page["last"], page["active"]) == ("replay", 40, 1)
        assert one["asked"].endswith("a")
        assert one["behind"] == 40 - one["next"] + 1 > 0
        deaf.close()
        while get(http_port(process), "/replayz").json["replays"]:
            pass
        client.close()


def test_given_a_subscriber_that_lags_then_its_catch_up_is_listed() -> None:
    with monitored("netstring") as process:
        deaf = RawClient(process.port, QUIET, b"SUB a 1\r\n")
        deaf.ask(b"")
        client = RawClient(process.port, QUIET)
        while not (page := get(http_port(process), "/replayz").json)["replays"]:
            client.ask(b"PUB a 500000\r\n%b\r\n" % bytes(500_000))
        (one,) = page["replays"]
        assert one["kind"] == "catch-up"
        assert one["cid"] == 1
        deaf.close()
        client.close()


@pytest.mark.parametrize("own", [(), ("--no_journal",)])
def test_given_messages_then_the_busiest_subjects_are_counted_exactly(own: tuple[str, ...]) -> None:
    with monitored("netstring", *own) as process:
        port = http_port(process)
        assert get(port, "/recentz").json["subjects"] == []
        client = RawClient(process.port, QUIET)
        client.ask(b"PUB a.b 3\r\nxyz\r\n" * 20 + b"PUB c 1\r\nx\r\n" * 10)
        page = get(port, "/recentz").json
        assert page["subjects"] == [
            {"subject": "a.b", "msgs": 20, "bytes": 60},
            {"subject": "c", "msgs": 10, "bytes": 10},
        ]
        assert (page["first"], page["last"], page["newest"], page["messages"]) == (1, 30, 30, 30)
        later = get(port, "/recentz?after=25").json
        assert (later["first"], later["subjects"]) == (
            26,
            [{"subject": "c", "msgs": 5, "bytes": 5}],
        )
        assert get(port, "/recentz?after=30").json["messages"] == 0
        assert get(port, "/recentz?after=x").status == 400
        client.close()


def test_given_more_than_is_counted_then_the_newest_are_a_sample() -> None:
    with monitored("netstring") as process:
        client = RawClient(process.port, QUIET)
        for begin in range(0, 2 * MESSAGES_MAX, 1024):
            client.ask(b"".join(b"PUB s.%d 1\r\nx\r\n" % at for at in range(begin, begin + 1024)))
        page = get(http_port(process), "/recentz").json
        assert page["newest"] == 2 * MESSAGES_MAX
        assert page["messages"] == page["num_subjects"] == MESSAGES_MAX
        assert len(page["subjects"]) == SUBJECTS_MAX
        client.close()


@pytest.mark.parametrize("own", [(), ("--no_journal",)])
def test_given_long_messages_then_the_newest_are_among_those_counted(own: tuple[str, ...]) -> None:
    with monitored("netstring", *own) as process:
        client = RawClient(process.port, QUIET)
        client.ask(b"PUB old 20000\r\n%b\r\n" % bytes(20_000) * 100 + b"PUB new 1\r\nx\r\n" * 5)
        page = get(http_port(process), "/recentz").json
        client.close()
    counted = {one["subject"]: one["msgs"] for one in page["subjects"]}
    assert page["last"] == 105
    assert counted["new"] == 5
    assert 10 < counted["old"] < 30


def test_given_another_site_then_it_may_not_read_what_is_published() -> None:
    with monitored("netstring") as process:
        for path in ("/recentz", "/journalz", "/replayz"):
            page = get(http_port(process), path)
            assert page.status == 200
            assert "Access-Control-Allow-Origin" not in page.headers


def test_given_no_journal_at_all_then_the_pages_say_so() -> None:
    with monitored("netstring", "--no_journal", "--ring_bytes", "0") as process:
        port = http_port(process)
        assert get(port, "/journalz").json["store"] == "none"
        assert get(port, "/replayz").json["replays"] == []
        assert get(port, "/recentz").json["messages"] == 0
