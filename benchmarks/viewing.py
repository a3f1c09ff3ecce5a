"""The cost of the live page: the same flood with the page closed, and open.

    python -m benchmarks.viewing [--messages 40000000] [--rounds 7]

One publisher and one subscriber, 16 bytes, the journal on. The ways to look take turns in each
round, and a figure is that of a round divided by the same round's without monitoring, because the
machine's speed changes from round to round.

    nothing      no monitoring port
    port         a monitoring port, and no request
    page         one live page: its figures once a second
    all views    the same, and what the views of connections, subjects and the journal ask for
"""

import argparse
import http.client
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from benchmarks.flood import run_flood
from benchmarks.process import free_port
from benchmarks.report import table
from benchmarks.scenarios import Flood
from benchmarks.servers import KNOWN

POLLED = ("/connz?sort=pending&auth=1&limit=500", "/replayz?limit=500", "/recentz", "/journalz")
POLL_SECONDS = 1.0
WAYS = ("nothing", "port", "page", "all views")


@contextmanager
def looking(port: int, is_polling: bool) -> Iterator[None]:
    """Look at the live page, as soon as there is one, in threads of this process."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            try:
                connection.request("GET", "/live")
                answer = connection.getresponse()
                while not ended.is_set() and answer.readline():
                    pass
            except OSError:
                ended.wait(0.05)  # the broker is about to start, or has stopped
            finally:
                connection.close()

    def poll() -> None:
        while not ended.wait(POLL_SECONDS):
            for path in POLLED:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                try:
                    connection.request("GET", path)
                    connection.getresponse().read()
                except OSError:
                    break
                finally:
                    connection.close()

    threads = [threading.Thread(target=watch)]
    if is_polling:
        threads.append(threading.Thread(target=poll))
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def cost(way: str, messages: int) -> float:
    """Return the broker's processor time for a message of one flood, in microseconds."""
    flood = Flood(name="1:1-16", about="one reader", messages=messages, size=16, subscribers=1)
    server = KNOWN["seriatim"]
    if way == "nothing":
        return run_flood(flood, server).cpu_us
    port = free_port()
    watched = replace(server, command=f"{server.command} -m {port} --http_host 127.0.0.1")
    if way == "port":
        return run_flood(flood, watched).cpu_us
    with looking(port, way == "all views"):
        return run_flood(flood, watched).cpu_us


def main() -> None:
    """Measure all ways, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=40_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    words = parser.parse_args()
    rounds = [{way: cost(way, words.messages) for way in WAYS} for _ in range(words.rounds)]
    rows = []
    for way in WAYS:
        spent = [one[way] for one in rounds]
        ratios = [one[way] / one["nothing"] for one in rounds]
        rows.append(
            [
                way,
                f"{statistics.median(spent):.3f} ({min(spent):.3f} - {max(spent):.3f})",
                f"{statistics.median(ratios):.3f} ({min(ratios):.3f} - {max(ratios):.3f})",
            ]
        )
    print(table(("looked at", "CPU us/message", "beside nothing"), rows), end="")


if __name__ == "__main__":
    main()
