"""The version, and whether the hot modules run compiled: all of them must, or none."""

import importlib
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from typing import Final

VERSION: Final = "0.1.0"
# Sent to clients in INFO. They compare it with the nats-server version that introduced a feature.
# It is the version whose protocol the broker speaks.
NATS_VERSION: Final = "2.15.1"
_IMPLEMENTATION = {"cpython": "CPython", "pypy": "PyPy"}.get(sys.implementation.name, "Python")
PYTHON: Final = f"{_IMPLEMENTATION} {sys.version.split()[0]}"
# Packages with hot modules. Other packages beside them may have `.pxd` files of their own.
HOT_ROOMS: Final = ("broker", "parser", "sequencer", "seriatim", "sublist")


class MixedBuild(RuntimeError):
    """Only some of the hot modules are compiled; compiled and uncompiled objects do not mix."""


def hot_modules() -> list[str]:
    """Return every module with a `.pxd` beside it: setup.py compiles exactly these."""
    root = os.path.dirname(os.path.dirname(__file__))
    found = []
    for room in HOT_ROOMS:
        for folder, inner, files in os.walk(os.path.join(root, room)):
            inner[:] = [one for one in inner if one != "__pycache__"]
            names = [file.removesuffix(".pxd") for file in files if file.endswith(".pxd")]
            place = folder[len(root) + 1 :].replace(os.sep, ".")
            found += [f"{place}.{name}" for name in names if name != "__init__"]
    assert found, "the .pxd files are part of this distribution"
    return sorted(found)


def is_compiled() -> bool:
    """True if the hot modules run compiled. Raises `MixedBuild` if only some of them do."""
    hot = hot_modules()
    plain = []
    for name in hot:
        spec = _spec_of(name)
        assert spec is not None, f"{name} is part of this distribution"
        if not (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES)):
            plain.append(name)
    if plain and len(plain) < len(hot):
        raise MixedBuild(
            f"{', '.join(plain)} run uncompiled and the other hot modules compiled;"
            " install again, or delete the .so files beside the sources"
        )
    return not plain


def _spec_of(name: str) -> ModuleSpec | None:
    """Find a module, or what is loaded, without loading the packages that it is in."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded.__spec__
    room, *folders, _ = name.split(".")
    package = sys.modules.get(room) or importlib.import_module(room)
    paths = [os.path.join(path, *folders) for path in package.__path__]
    return PathFinder.find_spec(name, paths)
