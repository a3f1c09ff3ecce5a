"""Starting: from the start of a server's process to the first connection that it accepts.

To measure recovery, the server is filled first, killed (SIGKILL) without a warning, and started
again on its store; then it must have every message. Its files are still in the page cache,
as after a crash of the server alone.
"""

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.keepers import keeper_of
from benchmarks.process import ServerProcess
from benchmarks.sample import Sample
from benchmarks.scenarios import Starting
from benchmarks.servers import Server
from benchmarks.storing import flood
from benchmarks.wire import payload_of


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
    """Fill the server, kill it, start it again, and compare its messages before and after."""
    keeper = keeper_of(process.server)
    with Connection(process.port) as control:
        keeper.begin(control)
        flood(control, payload_of(starting.size), starting.messages)
        before = keeper.kept(control)
    process.kill()
    process.start()
    with Connection(process.port) as control:
        after = keeper.kept(control)
    if after != before:
        raise BenchmarkError(f"{before} messages were kept, and {after} after a kill")
