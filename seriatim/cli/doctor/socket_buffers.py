"""Buffers and queues of the kernel for sockets, against what listeners and feeds ask for.

Buffers are measured on sockets that are bound nowhere: in a container the files of
/proc/sys/net/core are not all there.
"""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.addresses import BACKLOG
from seriatim.cli.check.check_results import CheckResult
from seriatim.cli.doctor.examination import Patient, hint, ok, warning
from seriatim.cli.doctor.process_limits import NET_ADMIN, is_able
from seriatim.settings.amounts import show_size

CORE: Final = Path("/proc/sys/net/core")
SOFTNET: Final = Path("/proc/net/softnet_stat")  # a line for each processor; the second is drops


def accept_queue() -> Iterator[CheckResult]:
    """Compare the queue of clients that wait to be accepted with what listeners ask for."""
    limit = int((CORE / "somaxconn").read_text())
    text = f"net.core.somaxconn is {limit}; listeners ask for {BACKLOG}"
    if limit >= BACKLOG:
        yield ok("accept queue", text)
        return
    yield hint(
        "accept queue",
        text,
        "when a fleet of clients reconnects at once, the system drops those that find no room, and"
        " they try again a second or more later",
        f"sysctl -w net.core.somaxconn={BACKLOG}",
    )


def feed_buffers(patient: Patient) -> Iterator[CheckResult]:
    """Compare the buffers that the system grants with those of feeds and their receivers."""
    from broker.feeds.rerequests import RECEIVE_BUFFER
    from seriatim.receiver.group import BUFFER_BYTES

    feeds = patient.settings.feeds
    if not feeds:
        return
    wanted = max(feed.send_buffer for feed in feeds)
    granted = _granted(socket.SO_SNDBUF, wanted)
    text = f"{show_size(granted)} of {show_size(wanted)} for sending a feed"
    if granted >= wanted or is_able(patient.pid, NET_ADMIN):
        more = "; root gets all" if granted < wanted else ""
        yield ok("socket buffers", text + more)
    else:
        yield warning(
            "socket buffers",
            text,
            "datagrams of a burst that is faster than the network are dropped",
            f"sysctl -w net.core.wmem_max={wanted}",
        )
    receivers = [("a receiver on this machine", BUFFER_BYTES)]
    if any(feed.rerequest_port for feed in feeds):
        receivers.append(("re-requests", RECEIVE_BUFFER))
    for whose, wanted in receivers:
        granted = _granted(socket.SO_RCVBUF, wanted)
        text = f"{show_size(granted)} of {show_size(wanted)} for {whose}"
        if granted >= wanted:
            yield ok("socket buffers", text)
            continue
        yield hint(
            "socket buffers",
            text,
            "datagrams are lost while the program is busy for some milliseconds, and come again"
            " only on request",
            f"sysctl -w net.core.rmem_max={wanted}",
        )


def _granted(option: int, wanted: int) -> int:
    """The size of a buffer that the system grants, without the half that Linux adds for itself."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.setsockopt(socket.SOL_SOCKET, option, wanted)
        return made.getsockopt(socket.SOL_SOCKET, option) // 2


def receive_queue() -> Iterator[CheckResult]:
    """Say whether the kernel has dropped packets because a processor's queue was full."""
    limit = int((CORE / "netdev_max_backlog").read_text())
    dropped = sum(int(line.split()[1], 16) for line in SOFTNET.read_text().splitlines())
    text = f"net.core.netdev_max_backlog is {limit}; {dropped} packets were dropped since the boot"
    if not dropped:
        yield ok("receive queue", text)
        return
    yield hint(
        "receive queue",
        text,
        "packets came faster than the kernel took them: datagrams of feeds are lost then, also on"
        " loopback, and clients wait for what TCP repeats",
        f"sysctl -w net.core.netdev_max_backlog={max(4 * limit, 4096)}",
    )
