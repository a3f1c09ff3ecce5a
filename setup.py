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

HEADERS = [
    "parser/scan.h",
    "sublist/digest.h",
    "sublist/same.h",
    "sequencer/copy.h",
    "sequencer/journal/crc32c.h",
    "sequencer/journal/stream_copy.h",
    "sequencer/journal/window_guard.h",
    "sequencer/feed/datagrams.h",
    "seriatim/client/given.h",
    "seriatim/client/stream_publishing.h",
    "seriatim/client/scan.h",
    "seriatim/receiver/arrivals.h",
]
PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
DIRECTIVES = {
    "auto_pickle": False,  # nothing hot is ever pickled; the code for it is not small
    "annotation_typing": False,  # `int` in the .py is a Python int there; the .pxd knows better
    "boundscheck": False,
    "cdivision": True,
    "initializedcheck": False,
    "language_level": 3,
    "wraparound": False,
}


def hot_modules() -> list[str]:
    """The modules that are compiled: those that have their types in a `.pxd` beside them."""
    rooms = [marker.parent for marker in Path().glob("*/__init__.pxd")]
    types = [path.with_suffix("") for room in rooms for path in room.rglob("*.pxd")]
    return sorted(".".join(path.parts) for path in types if path.name != "__init__")


class BuildAllOrNone(build_ext):
    """The usual build_ext, except that a failure leaves the sources to run uncompiled."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or PROCESSORS

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
            extra_compile_args=os.environ.get("SERIATIM_CFLAGS", "-O2 -g0").split(),
            extra_link_args=os.environ.get("SERIATIM_LDFLAGS", "").split(),
        )
        for name in hot_modules()
    ]
    return cythonize(
        modules,
        build_dir="build/cython",
        compiler_directives=DIRECTIVES,
        annotate=bool(os.environ.get("SERIATIM_ANNOTATE")),
        # With other flags, compile everything again, unless the last build had the same ones.
        force=bool(os.environ.get("SERIATIM_CFLAGS")) and not os.environ.get("SERIATIM_BUILT"),
        nthreads=PROCESSORS,
    )


if __name__ == "__main__":  # not in the processes that translate
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildAllOrNone})
