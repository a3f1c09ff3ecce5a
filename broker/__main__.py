"""The broker's own process: `python -m broker --settings-fd N`, which `seriatim serve` becomes.

It imports only what a running broker needs. asyncio imports `ssl` if it can, which takes four
megabytes, a fifth of a broker's memory. No listener uses TLS, so this prevents the import, unless
uvloop is used, which needs it, or the broker is a member of a cluster: etcd may want TLS.
"""

import importlib.util
import signal
import sys

from broker.settings.settings import Settings, settings_from_json


def _settings() -> Settings | None:
    """The settings from `seriatim serve`; None if it did not start this process."""
    if len(sys.argv) != 3 or sys.argv[1] != "--settings-fd" or not sys.argv[2].isdigit():
        return None
    with open(int(sys.argv[2]), "rb") as file:
        return settings_from_json(file.read())


def main() -> int:
    """Return the exit status: 0 after a clean stop, 1 with one line if the broker cannot start."""
    if not __debug__:
        print("seriatim: python -O is refused: assertions guard the order", file=sys.stderr)
        return 1
    settings = _settings()
    if settings is None:
        print("seriatim: this is the broker's own process; run: seriatim serve", file=sys.stderr)
        return 1
    uvloop = settings.loop != "asyncio" and importlib.util.find_spec("uvloop") is not None
    if not uvloop and not settings.cluster.name:
        sys.modules["ssl"] = None  # type: ignore[assignment]
    from broker.process import run

    return run(settings, uvloop)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the loop handles it: no traceback
    sys.exit(main())
