"""Starts the broker in this process, from checked settings to its exit status.

It imports only what a running broker needs. asyncio imports `ssl` if it can, which takes four
megabytes, a fifth of a broker's memory. So this prevents the import, unless there is TLS, uvloop is
used, which needs it, or the broker is a member of a cluster: etcd may want TLS.
"""

import gc
import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import NoReturn

from broker.settings.settings import Settings
from broker.settings.sources import Sources


def launch(settings: Settings, sources: Sources | None, inherited: Iterable[int] = ()) -> int:
    """Return the exit status: 0 after a clean stop, 1 with one line if the broker cannot start.

    `inherited` are sockets that clients can connect to already.
    """
    if not __debug__:
        print("seriatim: python -O is refused: assertions guard the order", file=sys.stderr)
        return 1
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the loop handles it: no traceback
    uvloop = settings.loop != "asyncio" and importlib.util.find_spec("uvloop") is not None
    if not uvloop and not settings.cluster.name and not settings.tls.is_on:
        sys.modules["ssl"] = None  # type: ignore[assignment]
    from broker.rehearsal import listen_early

    listen_early(settings, inherited)  # first, as the rest takes longer than all before
    gc.disable()  # modules stay, so looking for garbage among them would find none
    from broker.process import run

    gc.freeze()
    gc.enable()
    return end(run(settings, sources, uvloop))


def end(status: int) -> NoReturn:
    """End the process at once; its output is complete.

    The interpreter would give back every object one by one, which takes half a second with a
    million subscriptions. The next broker waits for that, and so do its clients.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
