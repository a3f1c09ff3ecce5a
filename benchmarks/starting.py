"""Starting: from the start of a server's process to the first connection that it accepts.

To measure recovery, the server is filled first, killed (SIGKILL) without a warning or stopped
(SIGTERM), and started again on its store; then it must have every message. Its files are still in
the page cache, as after a crash of the server alone.
"""

import shutil

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.keepers import keeper_of
from benchmarks.process import ServerProcess
from benchmarks.sample import Sample
from benchmarks.scenarios import Starting
from benchmarks.servers import Server
from benchmarks.storing import flood
from benchmarks.wire import payload_of

RECORD_BYTES = 64  # of a message in the journal beside its payload, more or less
CLEAN_STOP_SECONDS = 60
ROOM_TIMES = 1.5  # what must be free, so that the machine goes on working


def run_starting(starting: Starting, server: Server) -> Sample:
    """Run `starting` once: a fresh process of `server`, or a second one on what the first kept."""
    with ServerProcess(server) as process:
        if starting.messages:
            recover(process, starting)
        return Sample(
            messages=max(1, starting.messages),
            deliveries=0,
            seconds=process.started_seconds,
            server_cpu_seconds=process.started_cpu_seconds,
            generator_cpu_seconds=0,
            peak_bytes=process.peak_bytes(),
            start_ms=process.started_seconds * 1000,
        )


def recover(process: ServerProcess, starting: Starting) -> None:
    """Fill the server, kill or stop it, start it again, and compare its messages."""
    keeper = keeper_of(process.server)
    needed = starting.messages * (starting.size + RECORD_BYTES)
    free = shutil.disk_usage(process.directory.name).free
    if free < needed * ROOM_TIMES:
        raise BenchmarkError(
            f"{process.directory.name} has {free >> 20} MiB free, and the journal takes"
            f" {needed >> 20}: set TMPDIR to a place with more"
        )
    with Connection(process.port) as control:
        keeper.begin(control)
        flood(control, payload_of(starting.size), starting.messages)
        before = keeper.kept(control)
    if not starting.stopped:
        process.kill()
    elif not process.stop(CLEAN_STOP_SECONDS):
        raise BenchmarkError(f"it did not stop within {CLEAN_STOP_SECONDS} s")
    process.start()
    with Connection(process.port) as control:
        after = keeper.kept(control)
    if after != before:
        raise BenchmarkError(f"{before} messages were kept, and {after} after the start")
