"""The cost of TLS, beside nats-server: CPU of each server per message, in one run.

    python -m benchmarks.secured [--messages 400000] [--runs 5] [--size 128]
    python -m benchmarks.secured --connections 2000 [--runs 5]

One publisher floods, one subscriber receives; or connections come and go, one after the other, each
with a handshake, SUB, PUB and PING. Each server is measured in plain text and with TLS,
both with the same certificate (ECDSA P-256) and the cipher that they agree on. The clients are
Python's own `ssl`: they are no part of the figures, and make the flood slower than a C program's.
"""

import argparse
import shlex
import socket
import ssl
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.process import ServerProcess
from benchmarks.report import table
from benchmarks.servers import JOURNAL, NATS, SERIATIM, Server

SUBJECT = b"bench"
CHUNK = 1 << 16  # bytes of one write, and of one read
WAIT_SECONDS = 120.0
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
TLS = "--tls --tlscert {certificate} --tlskey {key}"
SERVERS = {
    "nats-server": NATS,
    "seriatim": f"{JOURNAL} --frame none",
    "seriatim, nothing kept": f"{SERIATIM} asyncio --no-journal --ring_bytes 0 --frame none",
}


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate for 127.0.0.1, and its key."""
    pem, key = folder / "server.pem", folder / "server.key"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ["openssl", "req", "-x509", *CURVE, *names, "-keyout", str(key), "-out", str(pem)]
    subprocess.run(command, check=True, capture_output=True)
    return pem, key


class Peer:
    """A client, in plain text or with TLS; for one thread at a time."""

    def __init__(self, port: int, context: ssl.SSLContext | None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)
        info = b""
        while not info.endswith(b"\n"):
            info += self.socket.recv(1)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.settle(b'CONNECT {"verbose":false,"pedantic":false}\r\n')

    def settle(self, data: bytes) -> None:
        """Send, and return when the server has handled it."""
        self.socket.sendall(data + b"PING\r\n")
        heard = b""
        while b"PONG\r\n" not in heard:  # nats-server's INFO may follow
            got = self.socket.recv(CHUNK)
            if not got:
                raise BenchmarkError(f"the server closed: {heard[-100:]!r}")
            heard += got

    def read(self, size: int) -> None:
        """Read until so many bytes have come."""
        while size > 0:
            size -= len(self.socket.recv(CHUNK)) or size + 1
        if size < 0:
            raise BenchmarkError("the server sent something else, or closed the connection")


def flood(server: ServerProcess, context: ssl.SSLContext | None, messages: int, size: int) -> float:
    """Measure the CPU us of the server per message."""
    payload = b"x" * size
    publication = b"PUB %b %d\r\n%b\r\n" % (SUBJECT, size, payload)
    block = publication * max(CHUNK // len(publication), 1)
    count = max(messages // (len(block) // len(publication)), 1)
    messages = count * (len(block) // len(publication))
    expected = messages * len(b"MSG %b 1 %d\r\n%b\r\n" % (SUBJECT, size, payload))
    subscriber, publisher = Peer(server.port, context), Peer(server.port, context)
    subscriber.settle(b"SUB %b 1\r\n" % SUBJECT)
    reader = threading.Thread(target=subscriber.read, args=(expected,))
    began = server.cpu_seconds()
    reader.start()
    for _ in range(count):
        publisher.socket.sendall(block)
    publisher.settle(b"")
    reader.join(WAIT_SECONDS)
    spent = server.cpu_seconds() - began
    if reader.is_alive():
        raise BenchmarkError("the subscriber did not get everything")
    subscriber.socket.close()
    publisher.socket.close()
    return spent / messages * 1e6


def churn(server: ServerProcess, context: ssl.SSLContext | None, connections: int) -> float:
    """Measure the CPU us of the server per connection."""
    witness = Peer(server.port, context)
    began = server.cpu_seconds()
    for _ in range(connections):
        peer = Peer(server.port, context)
        peer.settle(b"SUB %b 1\r\nPUB %b 1\r\nx\r\n" % (SUBJECT, SUBJECT))
        peer.socket.close()
    witness.settle(b"")  # what the last one has left is removed
    spent = server.cpu_seconds() - began
    witness.socket.close()
    return spent / connections * 1e6


def measure(
    messages: int, size: int, runs: int, connections: int = 0
) -> dict[tuple[str, bool], list[float]]:
    """Run each server in turn; return the costs by its name and the use of TLS."""
    costs: dict[tuple[str, bool], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        pem, key = certificate(Path(folder))
        flags = TLS.format(certificate=shlex.quote(str(pem)), key=shlex.quote(str(key)))
        trusting = ssl.create_default_context(cafile=pem)
        for _ in range(runs):
            for name, command in SERVERS.items():
                for secured in (False, True):
                    words = f"{command} {flags}" if secured else command
                    with ServerProcess(Server(name, "none", words)) as server:
                        context = trusting if secured else None
                        if connections:
                            cost = churn(server, context, connections)
                        else:
                            cost = flood(server, context, messages, size)
                    costs.setdefault((name, secured), []).append(cost)
    return costs


def report(costs: dict[tuple[str, bool], list[float]], what: str) -> str:
    """The medians, and how many times better than nats-server each is."""
    rows = []
    for name in SERVERS:
        cells = []
        for secured in (False, True):
            own = costs[name, secured]
            peer = statistics.median(costs["nats-server", secured])
            middle = statistics.median(own)
            cells += [f"{middle:.3f} ({min(own):.3f} - {max(own):.3f})", f"{peer / middle:.2f}"]
        rows.append([name, *cells])
    shown = table(("server", "plain", "ratio", "TLS", "ratio"), rows)
    return f"{what}, (least - greatest)\n\n{shown}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--connections", type=int, default=0, help="instead of messages")
    asked = parser.parse_args(arguments)
    costs = measure(asked.messages, asked.size, asked.runs, asked.connections)
    what = f"1:1, {asked.size} bytes: CPU us of the server per message"
    if asked.connections:
        what = "connect, SUB, PUB, close: CPU us of the server per connection"
    print(report(costs, what), end="")


if __name__ == "__main__":
    main()
