"""The broker's own process: `python -m broker --settings-fd N`, which commands become by exec.

`seriatim serve` runs the broker without it (seriatim/cli/serve.py).
"""

import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.settings.settings import Settings
    from broker.settings.sources import Sources


def _given() -> "tuple[Settings, Sources | None] | None":
    """Read the command's settings and their sources; None if no command started this process."""
    from broker.settings.settings import Settings
    from broker.settings.sources import start_from_json

    if not __debug__:
        return Settings(), None
    if len(sys.argv) != 3 or sys.argv[1] != "--settings-fd" or not sys.argv[2].isdigit():
        return None
    with open(int(sys.argv[2]), "rb") as file:
        return start_from_json(file.read())


def main() -> int:
    """Return the exit status: 0 after a clean stop, 1 with one line if the broker cannot start."""
    from broker.launch import launch

    given = _given()
    if given is None:
        print("seriatim: this is the broker's own process; run: seriatim serve", file=sys.stderr)
        return 1
    return launch(*given)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the loop handles it: no traceback
    sys.exit(main())
