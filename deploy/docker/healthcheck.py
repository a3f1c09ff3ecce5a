"""Exits with 0 if the monitoring port here says that the broker is alive, else with 1 and a line.

It runs every few seconds, so it imports little, and nothing of the broker: a broken installation
must not look healthy, and the other way round.
"""

import socket
import sys

TIMEOUT = 2.0  # seconds; below the timeout that the Dockerfile's HEALTHCHECK sets
REQUEST = b"GET /healthz?alive=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def fault(port: int) -> str:
    """Return the problem, in words; empty if the broker is healthy."""
    try:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT) as connection:
            connection.sendall(REQUEST)
            with connection.makefile("rb") as answer:
                status = answer.readline(256).split()
    except OSError as error:
        return f"no answer from 127.0.0.1:{port}: {error}"
    if len(status) < 2 or not status[0].startswith(b"HTTP/"):
        return f"no HTTP answer from 127.0.0.1:{port}: {b' '.join(status)!r}"
    if status[1] != b"200":
        return f"127.0.0.1:{port}/healthz says {b' '.join(status[1:]).decode('latin-1')}"
    return ""


if __name__ == "__main__":
    if problem := fault(int(sys.argv[1]) if len(sys.argv) > 1 else 8222):
        sys.exit(problem)  # the line goes to stderr, the status is 1
