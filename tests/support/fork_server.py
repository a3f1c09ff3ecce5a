"""A fork server of commands.py: it has imported a program, and each process of it is a fork.

A request on standard input, a socket, is a JSON object with three descriptors for the process's
standard streams, one of its network, and one that gets the exit status. A child leaves the loop,
takes its streams, network and environment, and is then the installed script `seriatim`, or
`python -m broker` with its settings.
"""

import atexit
import contextlib
import ctypes
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

REQUEST_MAX = 1 << 20
STREAMS = 3
CLONE_NEWNET = 0x40000000
LOADED_IF_NEEDED = (
    "ssl",  # before asyncio
    "encodings.ascii",
    "broker.launch",
    "broker.process",
    "broker.auth.users",
    "broker.clients.wiring",
    "broker.cluster.cluster_member",
    "broker.monitor",
    "broker.reloading.reloader",
    "broker.wires.plain_wire",
    "broker.wires.tls_wire",
    "broker.wires.websocket_wire",
    "sequencer.journal.replica_store",
)


def serve() -> bool:
    """Fork for each request until nobody can send one; True in a child."""
    gc.freeze()  # what a collection in a child does not look at stays shared
    requests = socket.socket(fileno=os.dup(0))
    statuses: dict[int, int] = {}  # by pid: where its exit status goes
    ended, wakeup = socket.socketpair()
    ended.setblocking(False)
    wakeup.setblocking(False)
    signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        selector.register(ended, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is ended:
                    ended.recv(REQUEST_MAX)
                    reap(statuses)
                    continue
                text, descriptors, _, _ = socket.recv_fds(requests, REQUEST_MAX, STREAMS + 2)
                if not text:
                    return False
                *streams, network, status = descriptors
                pid = os.fork()
                if not pid:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    signal.signal(signal.SIGINT, signal.default_int_handler)
                    for opened in (ended, wakeup, requests):
                        opened.close()
                    for other in (status, *statuses.values()):
                        os.close(other)
                    enter(network)
                    become(json.loads(text), streams)
                    return True
                os.write(status, b"%d\n" % pid)
                statuses[pid] = status
                for stream in (*streams, network):
                    os.close(stream)


def enter(network: int) -> None:
    """Be in this network from now on. Only root can leave one; nobody else makes any."""
    if os.stat(network).st_ino != os.stat("/proc/self/ns/net").st_ino:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(network, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    os.close(network)


def reap(statuses: dict[int, int]) -> None:
    """Pass on which children were stopped, and the exit status of each that has ended."""
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        if not pid:
            return
        stopped = os.WIFSTOPPED(status)
        text = b"stopped\n" if stopped else b"%d\n" % os.waitstatus_to_exitcode(status)
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
            os.write(statuses[pid], text)
        if not stopped:
            os.close(statuses.pop(pid))


def become(request: dict[str, object], streams: list[int]) -> None:
    """Be what a new interpreter would be with these arguments, environment and streams."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in streams:
        if stream >= STREAMS:
            os.close(stream)
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    for library in filter(None, os.environ.get("LD_PRELOAD", "").split(":")):
        # One of ours read the environment before this one was there.
        start = getattr(ctypes.CDLL(library), f"{Path(library).stem}_start", None)
        if start is not None:
            start()
    sys.argv = list(request["command"])  # type: ignore[call-overload]
    if request["given"]:
        settings = os.memfd_create("seriatim-settings")
        os.write(settings, str(request["given"]).encode())
        os.lseek(settings, 0, os.SEEK_SET)
        sys.argv.append(str(settings))
    sys.stdin = sys.__stdin__ = opened(0, sys.stdin)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = opened(1, sys.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = opened(2, sys.stderr)  # type: ignore[misc]


def opened(number: int, like: Any) -> TextIOWrapper:
    """A standard stream as the interpreter opens it."""
    return open(
        number,
        "w" if number else "r",
        encoding=like.encoding,
        errors=like.errors,
        buffering=1 if number == 2 or os.isatty(number) else -1,
        closefd=False,
    )


def broker_main() -> int | str | None:
    """Run `python -m broker`; its exit status, as `sys.exit` was given it."""
    try:
        runpy.run_module("broker", run_name="__main__")
    except SystemExit as end:
        return end.code
    return 0


def end_with(program: Callable[[], int | str | None]) -> None:
    """Run the program, and end as an interpreter does, but for taking all modules apart.

    That writes to most pages that are shared with the fork server, so each would be copied first.
    It takes longer than a short command itself.
    """
    status = program()
    with contextlib.suppress(OSError):  # whoever read it is gone: the interpreter's own end says so
        sys.stdout.flush()
        sys.stderr.flush()
        if status is None or isinstance(status, int):
            threading._shutdown()  # type: ignore[attr-defined]  # waits for all that are no daemons
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status or 0)
    sys.exit(status)


def run_command() -> None:
    """Be the script in the environment's `bin`."""
    sys.path.insert(0, os.path.dirname(sys.executable))
    import asyncio  # noqa: F401

    import rich.console
    import rich.markdown
    import rich.panel
    import rich.table
    import rich.text  # noqa: F401

    import seriatim.cli.commands
    import seriatim.client

    for package in (seriatim.cli, seriatim.client):  # with what one command loads only when it runs
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    for name in seriatim.cli.commands.command_tree().commands:
        seriatim.cli.commands.tree_of(name)
    if serve():
        end_with(seriatim.cli.main)


def run_broker() -> None:
    """Be `python -m broker`, which has asyncio without `ssl`."""
    sys.modules["ssl"] = None  # type: ignore[assignment]
    for name in ("encodings.ascii", "broker.launch", "broker.process"):
        import_module(name)
    if serve():
        end_with(broker_main)


def run_whole_broker() -> None:
    """Be `python -m broker` with all that a broker loads only for TLS, monitoring or a cluster."""
    for name in LOADED_IF_NEEDED:
        import_module(name)
    if serve():
        end_with(broker_main)


if __name__ == "__main__":
    enter(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests and for what they run
    run = {"command": run_command, "broker": run_broker, "whole broker": run_whole_broker}
    run[sys.argv[1]]()
