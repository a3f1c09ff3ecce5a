"""Runs one target under libFuzzer, in the sanitized process that fuzz/__main__.py starts.

python -m fuzz.drive TARGET [libFuzzer's own arguments]
"""

import gc
import itertools
import os
import sys
from importlib import import_module

from fuzz.build import check_build

atheris = import_module("atheris")  # atheris has no types, and type checks run without it
CONTROL = [
    "broker.clients.control",
    "broker.replay.cursor",
    "broker.clients.inbox",
    "broker.wires.connect",
    "broker.replay.replays",
    "broker.clients.admission",
    "broker.wires.websocket_wire",
    "websockets.frames",
    "websockets.protocol",
    "broker.wires.go_json",
    "broker.clients.control",
    "broker.auth.authenticator",
]
CARDINAL = ["cardinal.avro", "cardinal.message_codec", "cardinal.pattern"]
with atheris.instrument_imports(include=CONTROL + CARDINAL):
    from fuzz.cases import CASES

COLLECT_EVERY = 16  # inputs; their reference cycles would fill the memory


def main() -> None:
    """Make sure that the sanitized build is running, then fuzz."""
    check_build()
    check = CASES[sys.argv.pop(1)].check
    inputs = itertools.count(1)

    def once(data: bytes) -> None:
        check(data)
        if next(inputs) % COLLECT_EVERY == 0:
            gc.collect()

    gc.disable()
    gc.freeze()  # all objects so far stay
    sys.argv[0] = os.environ.get("FUZZ_AGAIN", sys.argv[0])
    atheris.Setup(sys.argv, once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
