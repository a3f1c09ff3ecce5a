"""The version, and whether the hot modules run compiled: all of them or none."""

import importlib.util
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Final

VERSION: Final = "0.1.0"
# What clients are told in INFO: they compare it with the nats-server that a feature came with,
# and take an older one to be without it. It is the one whose protocol is spoken here.
NATS_VERSION: Final = "2.15.1"
_IMPLEMENTATION = {"cpython": "CPython", "pypy": "PyPy"}.get(sys.implementation.name, "Python")
PYTHON: Final = f"{_IMPLEMENTATION} {sys.version.split()[0]}"
HOT_MODULES: Final = (
    "parser.machine",
    "sublist.subject",
    "sublist.subscription",
    "sublist.trie",
    "sublist.route",
    "sublist.sublist",
    "sequencer.journal.crc",
    "sequencer.journal.record",
    "sequencer.journal.columns",
    "sequencer.feed.feed_message",
    "sequencer.feed.feed_codec",
    "sequencer.feed.netstrings",
    "sequencer.feed.network",
    "sequencer.feed.binary",
    "sequencer.feed.moldudp64",
    "sequencer.feed.datagrams",
    "sequencer.feed.feed",
    "seriatim.receiver.holes",
    "seriatim.receiver.order",
    "seriatim.receiver.arrivals",
    "sequencer.digits",
    "sequencer.sequencer",
    "broker.dataplane.frame",
    "broker.dataplane.connection",
    "broker.dataplane.gate",
    "broker.dataplane.reply_publisher",
    "broker.dataplane.plane",
    "broker.dataplane.staged_rows",
    "broker.dataplane.replay_writer",
    "broker.cquencer.cquencer_client",
    "broker.cquencer.cquencer_port",
)


class MixedBuild(RuntimeError):
    """Some hot modules are compiled and some are not; their objects do not mix."""


def is_compiled() -> bool:
    """Whether the hot modules run compiled. Raises `MixedBuild` if only some of them do."""
    plain = []
    for name in HOT_MODULES:
        spec = importlib.util.find_spec(name)
        assert spec is not None, f"{name} is part of this distribution"
        if not (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES)):
            plain.append(name)
    if plain and len(plain) < len(HOT_MODULES):
        raise MixedBuild(
            f"{', '.join(plain)} run uncompiled and the other hot modules compiled;"
            " install again, or delete the .so files beside the sources"
        )
    return not plain
