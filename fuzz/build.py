"""The instrumented build: a copy of the sources in build/fuzz/tree, compiled separately.

clang compiles the hot modules with the address and undefined-behaviour sanitizers and with
libFuzzer's coverage. Their runtime is preloaded (fuzz/__main__.py), so nothing is linked. The copy
has smaller sizes (`SHRUNK`), so that a few bytes of input fill a buffer, a slot or a table;
tests/fuzz runs the corpus with the real sizes. The build is renewed when a source or a flag has
changed: all of it after a change of a flag, and the modules that a changed source reaches;
`python -m fuzz.build` does only this. To run the corpus once, it compiles without optimizing and
without coverage, in a sixth of the time; the sanitizers see the same, or more.
"""

import hashlib
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "fuzz" / "tree"
ROOMS = ("parser", "sublist", "sequencer", "broker", "cardinal", "seriatim", "testkit", "fuzz")
UNCOMPILED = ("cardinal", "testkit", "fuzz")
KINDS = ("*.py", "*.pxd", "*.h")
FILES = ("setup.py", "pyproject.toml", "LICENSE", "README.md")
SLOWEST = 20  # seconds for one input; a busy machine needs some hundred milliseconds
CFLAGS = (
    "-gline-tables-only",  # enough for stack traces; all of -g takes clang twice as long
    "-w",  # gcc's build reports the warnings
    "-fno-omit-frame-pointer",
    "-fno-wrapv",  # Python's own flag; with it, signed overflow would not be an error
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
)
OPTIMIZED, QUICK = "-O1 -fsanitize=fuzzer-no-link", "-O0"
STAMP = "fuzz-build.sha256"
IMPORT = re.compile(
    r"^\s*(?:from|import|cimport) ([\w.]+)(?: c?import (\([^)]*\)|.*))?", re.MULTILINE
)
SHRUNK = {
    "broker/dataplane/connection.pxd": {
        "BUFFER_MIN": 64,
        "SEGMENT": 4096,
        "LARGE_STEP": 256,
        "SPARE_MAX": 8192,
        "SPARE_LARGEST": 6144,
        "LOOKED_AT": 2,
    },
    "broker/dataplane/plane.pxd": {"DEFERRED_NUMBERS_MAX": 50, "ROUTES_NEAR": 8, "WORK_MAX": 100},
    "broker/dataplane/replay_writer.pxd": {"OUTBOX": 1024, "FEW": 2},
    "broker/dataplane/frame.pxd": {"MARGIN_MIN": 16},
    "sequencer/sequencer.pxd": {"BATCH_MAX": 2048, "WINDOW_MAX": 4096},
    "sequencer/journal/record.pxd": {"BUFFER_MIN": 128, "BUFFER_MAX": 2048},
    "sequencer/replica/forward_copies.pxd": {"BLOCK_MAX": 2048},
    "sequencer/replica/forward_table.pxd": {"ROWS_MIN": 4, "ROWS_KEPT": 8},
    "sequencer/journal/columns.pxd": {"ROOM_MIN": 64, "ROWS_MIN": 2, "KNOWN_MIN": 400},
    "sublist/sublist.pxd": {
        "SLOTS_MIN": 8,
        "REPLIES": 4,
        "CHAIN_MAX": 3,
        "SUBJECT_MAX": 32,
        "CHANGES_MAX": 4,
        "SHARED_MAX": 3,
        "ENTRIES_MAX": 30,
    },
}


def sources() -> list[Path]:
    """The files of the copy, as paths below the root."""
    found = [Path(name) for name in FILES]
    for room in ROOMS:
        for kind in KINDS:
            found += [path.relative_to(ROOT) for path in (ROOT / room).rglob(kind)]
    return sorted(found)


def flags_digest(level: str) -> str:
    """A digest of what decides how every module is compiled."""
    given = (CFLAGS, level, SHRUNK, sys.version, metadata.version("cython"))
    return hashlib.sha256(repr(given).encode() + (ROOT / "setup.py").read_bytes()).hexdigest()


def digest(paths: list[Path]) -> str:
    """A digest of these sources, on which the compiled modules depend."""
    total = hashlib.sha256()
    for path in paths:
        if path.parts[0] not in UNCOMPILED and path.name not in ("LICENSE", "README.md"):
            total.update(str(path).encode() + (ROOT / path).read_bytes())
    return total.hexdigest()


def reached(path: Path) -> set[Path]:
    """A source and all of ours that it imports, directly or not, as paths below the root."""
    found: set[Path] = set()
    waiting = [path]
    while waiting:
        path = waiting.pop()
        if path in found or not (ROOT / path).is_file():
            continue
        found.add(path)
        waiting += [path.with_suffix(".pxd"), path.parent / "__init__.py"]
        for module, names in IMPORT.findall((ROOT / path).read_text()):
            for name in ("", *re.findall(r"\w+", names)):
                there = Path(*module.removeprefix("cython.cimports.").split("."), name)
                if there.parts[0] in ROOMS:
                    waiting += [there.with_suffix(".py"), there.with_suffix(".pxd")]
                    waiting.append(there / "__init__.py")
    return found


def passed_with(target: str, corpus: Path) -> str:
    """A digest of all that decides whether a target survives its corpus, at any optimization."""
    total = hashlib.sha256(repr((CFLAGS, SHRUNK, sys.version)).encode())
    sources = reached(Path("fuzz", f"case_{target}.py")) | {Path("fuzz", "corpus.py")}
    for path in (*sorted(sources), *sorted(corpus.iterdir())):
        total.update(f"{path.name}\n".encode() + (ROOT / path).read_bytes())
    return total.hexdigest()


def shrunk(path: Path) -> bytes:
    """A source as it is in the copy."""
    text = (ROOT / path).read_bytes()
    for name, value in SHRUNK.get(path.as_posix(), {}).items():
        text, found = re.subn(
            rb"\b%b = \d+" % name.encode(), b"%b = %d" % (name.encode(), value), text
        )
        if found != 1:
            raise SystemExit(f"fuzz/build.py: {path} has no size {name}; was it renamed?")
    return text


def copy(paths: list[Path]) -> None:
    """Copy the files that differ, so that unchanged modules are not compiled again."""
    for path in paths:
        text, there = shrunk(path), TREE / path
        there.parent.mkdir(parents=True, exist_ok=True)
        if not there.exists() or there.read_bytes() != text:
            there.write_bytes(text)
    wanted = set(paths)
    for kind in KINDS:
        for there in TREE.rglob(kind):
            path = there.relative_to(TREE)
            if path.parts[0] in ROOMS and path not in wanted:
                there.unlink()


def build(is_once: bool = False) -> Path:
    """Bring the copy up to date; returns its path. Raises `CalledProcessError`.

    `is_once`: for a run of the corpus alone, for which a build for fuzzing is good, too.
    """
    paths = sources()
    levels = (QUICK, OPTIMIZED) if is_once else (OPTIMIZED,)
    of_sources = digest(paths)
    marks = [f"{flags_digest(level)} {of_sources}" for level in levels]
    copy(paths)
    stamp = TREE / STAMP
    built = stamp.read_text() if stamp.exists() else ""
    if built in marks:
        return TREE
    stamp.unlink(missing_ok=True)  # until this build is complete, nothing of it counts
    is_new = built.partition(" ")[0] != flags_digest(levels[0])
    print("building the sanitized modules (all of them take a minute)", flush=True)
    environment = os.environ | {
        "CC": "clang",
        "LDSHARED": "clang -shared",
        "SERIATIM_CFLAGS": " ".join((*CFLAGS, levels[0])),
        "SERIATIM_LDFLAGS": "",
        "SERIATIM_REQUIRE_COMPILED": "1",
    }
    environment.pop("SERIATIM_PURE", None)
    if not is_new:
        environment["SERIATIM_BUILT"] = "1"
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=TREE, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-4000:], sep="\n", file=sys.stderr)
        done.check_returncode()
    stamp.write_text(marks[0])
    return TREE


def check_build() -> None:
    """End this process unless all hot modules in it are the sanitized ones."""
    tree = Path(__file__).resolve().parent.parent
    for types in tree.rglob("*.pxd"):
        name = ".".join(types.relative_to(tree).with_suffix("").parts)
        file = Path(str(getattr(sys.modules.get(name), "__file__", "")))
        if name in sys.modules and (file.suffix != ".so" or tree not in file.parents):
            sys.exit(f"fuzz: {name} is {file}, not the sanitized build")


if __name__ == "__main__":
    build()
