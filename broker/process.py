"""Runs one broker from its settings to its end: log, pid file, event loop, signals."""

import asyncio
import errno
import gc
import logging
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.clients.acceptor import RESERVED
from broker.rehearsal import rehearse
from broker.runtime.event_loop import BrokerLoop
from broker.runtime.logs import reopen, say, start_logging
from broker.runtime.notify import Notifier
from broker.runtime.pid_file import PidFile
from broker.runtime.stopping import Stopping
from broker.server import Server
from broker.settings.security_warnings import insecure
from broker.settings.settings import SequencerSettings, Settings
from broker.settings.sources import Sources
from broker.version import VERSION, MixedBuild, is_compiled
from sequencer.journal.errors import ELSEWHERE, OpeningStopped, StoreError

if TYPE_CHECKING:
    from broker.cluster.cluster_member import ClusterMember
    from broker.monitor import Monitor

log = logging.getLogger("seriatim")

# New subjects and subscriptions make many objects that are in no cycle. With its default of
# one run per 700 objects, the garbage collector would take a third of the time they cost.
GC_THRESHOLDS = (10_000, 10, 10)
READY = "Ready"  # for systemd


def run(settings: Settings, sources: Sources | None, uvloop: bool) -> int:
    """Run until stopped. Return 0 after a clean stop, 1 with one line if it cannot start."""
    try:
        start_logging(settings.log_file, settings.debug or settings.trace, settings.log_format)
    except OSError as error:
        say(f"seriatim: log file {settings.log_file}: {error.strerror}")
        return 1
    pid_file = PidFile(settings.pid_file)
    try:
        pid_file.write()
    except OSError as error:
        log.critical("pid file %s: %s", settings.pid_file, error.strerror)
        return 1
    status = 1
    try:
        status = _run(settings, sources, uvloop)
    finally:
        pid_file.remove(failed=status != 0)
    return status


def _run(settings: Settings, sources: Sources | None, uvloop: bool) -> int:
    try:
        compiled = is_compiled()
    except MixedBuild as error:
        log.critical("%s", error)
        return 1
    build, loop = "compiled" if compiled else "uncompiled", "uvloop" if uvloop else "asyncio"
    log.info("Starting seriatim %s (%s, %s)", VERSION, build, loop)
    if not compiled:
        log.warning("Running uncompiled, some 50 times slower: install again with a C compiler")
    if settings.loop == "uvloop" and not uvloop:
        log.warning("uvloop is not installed (pip install uvloop): using asyncio")
    for line in sources.warnings if sources is not None else ():
        log.warning("%s", line)
    for path in _unused(settings.sequencer):
        log.warning("%s does nothing without sequencer.port (--sequencer_port)", path)
    for line in insecure(settings):
        log.warning("Insecure: %s", line)
    try:
        with asyncio.Runner(loop_factory=_uvloop_factory() if uvloop else BrokerLoop) as runner:
            return runner.run(_serve(settings, sources))
    except OpeningStopped as error:
        log.info("Stopped: %s", error)
        return 0
    except (OSError, StoreError) as error:
        text = _shown(error)
        if text.endswith(ELSEWHERE):
            text += " with -sd DIR (--store_dir)"
        log.critical("%s", text)
        if settings.log_file:  # standard error is seen at a start, the log is not
            say(f"seriatim: {text}")
        return 1


def _shown(error: OSError | StoreError) -> str:
    """The error for an operator: the file comes first."""
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return f"{error.filename}: {error.strerror}{'; make room on that disk' if is_full else ''}"


def _unused(sequencer: SequencerSettings) -> list[str]:
    """Return settings of the cquencer port that have no effect, as there is no such port."""
    if sequencer.port:
        return []
    usual = SequencerSettings()
    names = ("host", "framing", "subject")
    return [f"sequencer.{one}" for one in names if getattr(sequencer, one) != getattr(usual, one)]


def _uvloop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    from uvloop import new_event_loop

    factory: Callable[[], asyncio.AbstractEventLoop] = new_event_loop
    return factory


def _raise_file_limit(settings: Settings) -> None:
    """Raise the limit of open files as far as the system allows: each connection needs one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = settings.limits
    if resource.RLIM_INFINITY != limit < limits.max_connections + RESERVED:
        log.warning(
            "Open-file limit %d < limits.max_connections %d + %d for the broker: extra"
            " clients will wait. Raise the limit (ulimit -n, LimitNOFILE)",
            *(limit, limits.max_connections, RESERVED),
        )


async def _serve(settings: Settings, sources: Sources | None) -> int:
    loop = asyncio.get_running_loop()
    notifier = Notifier(os.environ)
    stopping = Stopping(loop, bool(settings.cluster.name))
    loop.add_signal_handler(signal.SIGUSR1, reopen)
    loop.add_signal_handler(signal.SIGHUP, log.warning, "SIGHUP is ignored: still starting")
    lists = sources is not None and sources.lists_clients
    if lists:
        stopping.instead_of_retiring(lambda: log.info("0 clients are connected: still starting"))
    _raise_file_limit(settings)
    rehearse(settings, os.environ)
    cluster = None
    if settings.cluster.name:
        from broker.cluster.cluster_member import ClusterMember  # only if needed

        cluster = await ClusterMember.join(settings, loop)
    try:
        server, monitor = _make(settings, cluster, loop)
        if lists:
            stopping.instead_of_retiring(server.list_clients)
    except BaseException:
        if cluster is not None:
            await cluster.give_up()
        raise
    loop.add_signal_handler(signal.SIGHUP, _reload, server, sources, notifier)
    starting = loop.create_task(server.start())
    stopped = loop.create_task(stopping.asked())
    await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        if cluster is not None and starting.exception() is not None:
            await server.stop()  # the others would wait for a member that says nothing
        starting.result()
        gc.freeze()  # everything so far stays: the collector need not look at it again
        gc.set_threshold(*GC_THRESHOLDS)
        notifier.ready(READY)
        await stopped
        if stopping.is_gentle:
            notifier.status("Lame duck: clients are sent away")
            await stopping.retire(server.retire())
    else:  # a member waits for its cluster
        starting.cancel()
    notifier.stopping("Delivering what was accepted")
    log.info("Stopping: delivering what was accepted")
    await server.stop()
    if monitor is not None:
        monitor.stop()
    log.info("Server stopped")
    stopping.ignore_signals()
    return 1 if server.failed else 0


def _make(
    settings: Settings, cluster: "ClusterMember | None", loop: asyncio.AbstractEventLoop
) -> tuple[Server, "Monitor | None"]:
    """Make the broker, not started yet, and its monitoring, which answers from now on."""
    server = Server(settings, cluster)
    if not (settings.http_port or settings.https_port):
        return server, None
    from broker.monitor import Monitor  # prometheus_client takes six megabytes

    host = settings.http_host or settings.host
    port, context = settings.http_port, None
    if settings.https_port:
        port, context = settings.https_port, server.listening.context
    monitor = Monitor(server, loop, host, max(port, 0), context=context)
    _, http_port = monitor.start()
    if cluster is not None:
        cluster.http_port = http_port
    return server, monitor


def _reload(server: Server, sources: Sources | None, notifier: Notifier) -> None:
    """Read the settings again, at SIGHUP."""
    if sources is None:
        log.warning("SIGHUP is ignored: this broker was started without settings to read again")
        return
    from broker.reloading.reloader import Reloader  # what reads settings is needed only here

    notifier.reloading()
    try:
        Reloader(server, sources).reload()
    finally:
        notifier.ready(READY)
