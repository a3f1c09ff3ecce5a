"""Build the hot modules with Cython, all of them or none.

A machine without a C compiler gets the same sources, uncompiled: slower, and the broker
says so at its start. Half a build would be worse than none, for objects of a compiled
and an uncompiled module do not mix, so one failure takes back what was built.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HOT = [
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
]
HEADERS = [
    "sequencer/journal/crc32c.h",
    "sequencer/feed/datagrams.h",
    "seriatim/receiver/arrivals.h",
]
DIRECTIVES = {
    "auto_pickle": False,  # nothing hot is ever pickled; the code for it is not small
    "annotation_typing": False,  # `int` in the .py is a Python int there; the .pxd knows better
    "boundscheck": False,
    "cdivision": True,
    "initializedcheck": False,
    "language_level": 3,
    "wraparound": False,
}


class BuildAllOrNone(build_ext):
    """The usual build_ext, except that a failure leaves the sources to run uncompiled."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:  # compilers' errors have changed their classes too often
            if os.environ.get("SERIATIM_REQUIRE_COMPILED"):
                raise
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions = []
            self.warn(f"no working C compiler ({error}); seriatim will run uncompiled, and slower")


def extensions() -> list[Extension]:
    """The hot modules as C extensions; none when `SERIATIM_PURE` asks for the plain sources."""
    if os.environ.get("SERIATIM_PURE"):
        return []
    modules = [
        Extension(
            name,
            [name.replace(".", "/") + ".py"],
            include_dirs=[str(Path(header).parent) for header in HEADERS],
            depends=HEADERS,
            extra_compile_args=os.environ.get("SERIATIM_CFLAGS", "-O2").split(),
            extra_link_args=os.environ.get("SERIATIM_LDFLAGS", "").split(),
        )
        for name in HOT
    ]
    return cythonize(
        modules,
        build_dir="build/cython",
        compiler_directives=DIRECTIVES,
        annotate=bool(os.environ.get("SERIATIM_ANNOTATE")),
        force=bool(os.environ.get("SERIATIM_CFLAGS")),
    )


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildAllOrNone})
