"""Connections that come and go: connect, CONNECT, SUB, PUB, PING, close, one after the other."""

import socket
import time

from benchmarks.connection import Connection
from benchmarks.process import ServerProcess
from benchmarks.sample import Sample
from benchmarks.scenarios import Churn
from benchmarks.servers import Server
from benchmarks.wire import CONNECT, LOGIN, PONG, message, payload_of, publication

WARM_UP = 200  # connections before the clock counts
SUBJECT, SID = b"churn", b"1"


def run_churn(churn: Churn, server: Server) -> Sample:
    """Run `churn` once on a fresh process of `server`; every message must come back."""
    payload = payload_of(churn.size)
    connect = LOGIN if server.has_users else CONNECT
    request = b"SUB %b %b\r\n" % (SUBJECT, SID) + publication(SUBJECT, payload) + b"PING\r\n"
    with ServerProcess(server) as process, Connection(process.port, connect) as witness:
        for number in range(1, WARM_UP + 1):
            answer = message(server.frame, SUBJECT, SID, number, payload)
            one_connection(process.port, connect, request, answer)
        witness.settle()
        server_cpu, own_cpu = process.cpu_seconds(), time.process_time()
        began_at = time.perf_counter()
        for number in range(WARM_UP + 1, WARM_UP + churn.connections + 1):
            answer = message(server.frame, SUBJECT, SID, number, payload)
            one_connection(process.port, connect, request, answer)
        witness.settle()  # what the last one has left is removed
        return Sample(
            messages=churn.connections,
            deliveries=churn.connections,
            seconds=time.perf_counter() - began_at,
            server_cpu_seconds=process.cpu_seconds() - server_cpu,
            generator_cpu_seconds=time.process_time() - own_cpu,
            peak_bytes=process.peak_bytes(),
        )


def one_connection(port: int, connect: bytes, request: bytes, answer: bytes) -> None:
    """Connect, send `request`, wait for the message and for PONG, and say goodbye."""
    connection = Connection(port, connect)
    connection.send(request)
    data = connection.receive()
    while answer not in data or PONG not in data:
        data += connection.receive()
    connection.socket.shutdown(socket.SHUT_WR)  # an orderly end, as clients close
    connection.close()
