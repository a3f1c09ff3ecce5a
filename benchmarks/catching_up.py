"""How fast a new member of a cluster gets an existing journal, and its cost for live traffic.

    python -m benchmarks.catching_up [--gib 1] [--size 200]

Two members are in sync, and one client publishes at the coordinator: a batch, then PING, and the
next batch when the PONG says that it is committed. Then a third, empty member comes. Measured are
the time until it is in sync, the processor time of the coordinator and of the newcomer, and how
many messages are committed per second before and meanwhile.
"""

import argparse
import socket
import threading
import time
from pathlib import Path

from benchmarks.usage import cpu_seconds, peak_bytes
from sequencer.journal.record import RecordBatch
from sequencer.journal.store import Store
from tests.support.cluster_start import ClusterOf
from tests.support.processes import SeriatimServer

GIB = 1 << 30
BATCH_BYTES = 1 << 18
LIVE = 100  # messages in a batch
ALONE_S = 3.0
POLL_S = 0.02
END_S = 600.0


def fill(path: Path, size: int, payload: int) -> int:
    """Write a journal of `size` bytes with payloads of this size; return its last number."""
    store = Store.open(str(path), time.time_ns())
    body = bytes(payload)
    while store.bytes < size:
        batch = RecordBatch(store.salt, store.epoch)
        now, number = time.time_ns(), store.last
        while batch.end < BATCH_BYTES:
            number += 1
            batch.append_message(number, now, b"orders.new", b"", b"", body)
        store.reserve(batch.end)
        with batch.view() as view:
            store.write(view, batch.first, batch.last, now, False)
    while store.build_indexes():
        pass
    store.close()
    return store.last


class LiveTraffic:
    """One publisher that always waits for a batch to be committed."""

    def __init__(self, port: int) -> None:
        self.committed = 0
        self._socket = socket.create_connection(("127.0.0.1", port), END_S)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        batch = b"PUB live.x 128\r\n%b\r\n" % bytes(128) * LIVE + b"PING\r\n"
        said = b'CONNECT {"verbose":false,"echo":false}\r\n' + batch
        while not self._ended.is_set():
            self._socket.sendall(said)
            said = batch
            heard = b""
            while b"PONG\r\n" not in heard:
                heard = heard[-5:] + self._socket.recv(65536)
            self.committed += LIVE

    def end(self) -> None:
        """Stop publishing, and close the connection."""
        self._ended.set()
        self._thread.join()
        self._socket.close()


class MeasuredCluster(ClusterOf):
    """Two members with a full journal."""

    def __init__(self, size: int, payload: int) -> None:
        super().__init__(0)
        self._size, self._payload = size, payload

    def start(self) -> None:
        """Start the first member, with the whole journal, and the second, which copies it first."""
        begun = time.monotonic()
        last = fill(self.folder / "store-0", self._size, self._payload)
        print(f"made a journal of {last} messages in {time.monotonic() - begun:.1f} s")
        self.init(self.folder / "store-0")
        begun = time.monotonic()
        self.add()
        print(f"the first member serves after {time.monotonic() - begun:.1f} s")
        self.add()

    def add(self) -> SeriatimServer:
        """Start one more member; return when it is in sync."""
        at = len(self.members)
        store = self.folder / f"store-{at}"
        member = SeriatimServer(arguments=self.flags(at), store=store, frame="netstring")
        self.members.append(member)
        self._stack.callback(member.__exit__, AssertionError, None, None)
        member.start()
        until = time.monotonic() + END_S
        while len(self.view()["members"]) <= at and time.monotonic() < until:
            time.sleep(POLL_S)
        return member

    def await_copy(self, size: int) -> None:
        """Wait until the newest member has `size` bytes, and print the time."""
        begun, folder = time.monotonic(), self.folder / f"store-{len(self.members)}"
        copied = 0
        while copied < size and time.monotonic() < begun + END_S:
            time.sleep(POLL_S)
            copied = sum(file.stat().st_size for file in folder.glob("*.segment"))
        seconds = time.monotonic() - begun
        print(f"copied after {seconds:.1f} s, {size / seconds / 1e6:.0f} MB/s with its start")


def measure(gib: float, payload: int) -> None:
    """Run once, and print the results."""
    with MeasuredCluster(int(gib * GIB), payload) as cluster:
        coordinator = cluster.members[cluster.coordinator()]
        traffic = LiveTraffic(coordinator.port)
        try:
            time.sleep(ALONE_S / 3)
            before, begun = traffic.committed, time.monotonic()
            time.sleep(ALONE_S)
            alone = (traffic.committed - before) / (time.monotonic() - begun)
            before, begun = traffic.committed, time.monotonic()
            cpu = cpu_seconds(coordinator.pid)
            copied = threading.Thread(target=cluster.await_copy, args=(int(gib * GIB),))
            copied.start()
            newcomer = cluster.add()
            seconds = time.monotonic() - begun
            meanwhile = (traffic.committed - before) / seconds
            cpu = cpu_seconds(coordinator.pid) - cpu
            theirs = cpu_seconds(newcomer.pid)
            peaks = [peak_bytes(one.pid) >> 20 for one in (coordinator, newcomer)]
        finally:
            traffic.end()
        print(
            f"{gib:g} GiB of payloads of {payload} bytes: in sync after {seconds:.1f} s,"
            f" {gib * GIB / seconds / 1e6:.0f} MB/s; per GiB {cpu / gib:.2f} s of the coordinator's"
            f" processor and {theirs / gib:.2f} s of the newcomer's; at most {peaks[0]} and"
            f" {peaks[1]} MiB of memory"
        )
        print(
            f"live: {alone:.0f} messages/s alone, {meanwhile:.0f} meanwhile:"
            f" {100 * (1 - meanwhile / alone):.0f} % slower"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.catching_up",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--gib", type=float, default=1.0, help="size of the journal; default 1")
    parser.add_argument("--size", type=int, default=128, help="of a payload; default 128")
    chosen = parser.parse_args()
    measure(chosen.gib, chosen.size)
