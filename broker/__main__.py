"""The broker's own process: `python -m broker --settings-fd N`, which `seriatim serve` becomes.

It imports only what a running broker needs. `ssl` is four megabytes, a fifth of all the
memory of a broker, and asyncio imports it if it can; no listener uses TLS, so it cannot.
"""

import sys

if __name__ == "__main__":
    sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]

import asyncio
import gc
import logging
import os
import signal
from contextlib import suppress

from broker.logs import reopen, start_logging
from broker.server import Server
from broker.settings import Settings, settings_from_json
from broker.version import VERSION, MixedBuild, is_compiled

log = logging.getLogger("seriatim")

# New subjects and subscriptions make many objects that are in no cycle. The collector, which
# by default looks after every 700 of them, would take a third of the time they cost.
GC_THRESHOLDS = (50_000, 20, 50)


def main() -> int:
    """Run until told to stop. 0 after a clean stop, 1 with one line if it cannot start."""
    if not __debug__:
        print("seriatim: python -O is refused: assertions guard the order", file=sys.stderr)
        return 1
    if len(sys.argv) != 3 or sys.argv[1] != "--settings-fd" or not sys.argv[2].isdigit():
        print("seriatim: this is the broker's own process; run: seriatim serve", file=sys.stderr)
        return 1
    with open(int(sys.argv[2]), "rb") as file:
        settings = settings_from_json(file.read())
    try:
        handler = start_logging(settings.log_file, settings.debug or settings.trace)
        if settings.pid_file:
            with open(settings.pid_file, "w") as file:
                file.write(f"{os.getpid()}\n")
    except OSError as error:
        where = "log file" if error.filename == settings.log_file else "pid file"
        print(f"seriatim: {where} {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    try:
        return _run(settings, handler)
    finally:
        if settings.pid_file:
            with suppress(OSError):
                os.unlink(settings.pid_file)


def _run(settings: Settings, handler: logging.Handler) -> int:
    try:
        compiled = is_compiled()
    except MixedBuild as error:
        log.critical("%s", error)
        return 1
    uvloop = _uvloop(settings.loop)
    log.info(
        "Starting seriatim %s (%s, %s)",
        VERSION,
        "compiled" if compiled else "uncompiled",
        "uvloop" if uvloop else "asyncio",
    )
    if not compiled:
        log.warning("Running uncompiled, some 50 times slower: install again with a C compiler")
    try:
        factory = uvloop.new_event_loop if uvloop else None
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(_serve(settings, handler))
    except OSError as error:
        log.critical("%s", error)
        return 1


def _uvloop(choice: str):  # type: ignore[no-untyped-def]
    """The uvloop module, if it is wanted and here; None for asyncio's own loop."""
    if choice == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        if choice == "uvloop":
            log.warning("uvloop is not installed (pip install 'seriatim[uvloop]'): using asyncio")
        return None
    return uvloop


async def _serve(settings: Settings, handler: logging.Handler) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, reopen, handler)
    for number in (signal.SIGHUP, signal.SIGUSR2):
        loop.add_signal_handler(number, log.warning, "%s is ignored", number.name)
    server = Server(settings)
    monitor = None
    if settings.http_port:
        from broker.monitor import Monitor  # prometheus_client is six megabytes

        host = settings.http_host or settings.host
        monitor = Monitor(server, loop, host, max(settings.http_port, 0))
        monitor.start()
    await server.start()
    gc.freeze()  # what is here now stays: the collector need not look at it again
    gc.set_threshold(*GC_THRESHOLDS)
    await stop.wait()
    log.info("Stopping: delivering what was accepted")
    await server.stop()
    if monitor is not None:
        monitor.stop()
    log.info("Server stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
