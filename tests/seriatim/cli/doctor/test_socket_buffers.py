"""Doctor's findings about buffers and queues of the kernel."""

from pathlib import Path

from tests.seriatim.cli.doctor.doctor_runs import alone, doctor, ordinary

FEED = "239.255.0.1:4000,interface=127.0.0.1"


def test_given_a_short_queue_then_a_fleet_that_reconnects_does_not_fit() -> None:
    prefix = alone("echo 100 > /proc/sys/net/core/somaxconn")
    found = doctor(prefix=prefix).only("accept queue")
    assert found.level == "hint"
    assert found.text == "net.core.somaxconn is 100; listeners ask for 1024"
    assert found.do == "sysctl -w net.core.somaxconn=1024"


def test_given_a_long_queue_then_all_is_well() -> None:
    prefix = alone("echo 5000 > /proc/sys/net/core/somaxconn")
    assert doctor(prefix=prefix).only("accept queue").level == "ok"


def test_given_a_feed_that_wants_more_than_the_system_grants_then_it_says_how_much() -> None:
    wanted = 1 << 29  # no system grants so much to an ordinary user
    feed = f"{FEED},send_buffer={wanted}"
    sending, receiving = doctor("--feed", feed, prefix=ordinary()).about("socket buffers")
    assert sending.level == "warning"
    assert sending.text.endswith(" for sending a feed")
    assert sending.do == f"sysctl -w net.core.wmem_max={wanted}"
    assert receiving.text.endswith(" of 4MiB for a receiver on this machine")


def test_given_feeds_with_rerequests_then_their_buffer_is_examined_and_without_feeds_none() -> None:
    feed = f"{FEED},codec=moldudp64,rerequest_port=4001"
    found = doctor("--feed", feed).about("socket buffers")
    assert [one.text.partition(" for ")[2] for one in found] == [
        "sending a feed",
        "a receiver on this machine",
        "re-requests",
    ]
    assert doctor().about("socket buffers") == []


def test_given_the_kernel_counts_drops_then_they_are_reported() -> None:
    def drops() -> int:
        lines = Path("/proc/net/softnet_stat").read_text().splitlines()
        return sum(int(line.split()[1], 16) for line in lines)

    before = drops()
    found = doctor().only("receive queue")
    count = int(found.text.partition("; ")[2].split()[0])
    assert before <= count <= drops()
    assert found.level == ("hint" if count else "ok")
