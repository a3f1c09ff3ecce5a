"""A broker under callgrind, which counts the instructions of each function, of all threads.

The count does not depend on what else the machine does, so it shows a difference of a percent that
no clock would. It says nothing of caches and system calls: both are for the clocks.
"""

import re
import subprocess
from collections import Counter
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.process import ServerProcess
from benchmarks.servers import JOURNAL, Server

# What happens by the clock comes rarely: a broker is some fifty times slower here.
BROKER = f"{JOURNAL} --sync_interval 1m"
TOOL = (
    "env PYTHONHASHSEED=0 PYTHONPATH={tree} valgrind --tool=callgrind --instr-atstart=no"
    " --compress-strings=no --compress-pos=no --callgrind-out-file=counts "
)
CONTROL_S = 60
INTERPRETER = re.compile(r"python[\d.]*$|libpython")
COMPILED = re.compile(r"__pyx_(?:f|pw|pf|fuse)_")
PART = re.compile(r"(\d+)")


class CountedBroker(ServerProcess):
    """A broker of the sources in `tree`, whose instructions are counted from `begin` to `end`."""

    def __init__(self, tree: Path, flags: str = "") -> None:
        command = TOOL.replace("{tree}", str(tree)) + f"{BROKER} {flags}"
        super().__init__(Server("seriatim", "netstring", command, "jetstream"))

    def begin(self) -> None:
        """Count from now on."""
        self._control("--instr=on")

    def end(self) -> Counter[str]:
        """Return the instructions of each function so far. Once."""
        self._control("--dump")
        return functions(Path(self.directory.name) / "counts.1")

    def _control(self, word: str) -> None:
        words = ["callgrind_control", word, str(self.process.pid)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=CONTROL_S, check=False)
        if done.returncode:
            raise BenchmarkError(f"{' '.join(words)}: {done.stdout}{done.stderr}")


def functions(path: Path) -> Counter[str]:
    """Read what callgrind has written: the instructions of each function itself."""
    counts: Counter[str] = Counter()
    binary = name = ""
    is_call = False
    with path.open() as lines:
        for line in lines:
            if line.startswith("ob="):
                binary = line[3:].strip()
            elif line.startswith("fn="):
                name = name_of(line[3:].strip(), binary)
            elif line.startswith("calls="):
                is_call = True  # the next line is what was called
            elif line[0].isdigit():
                if not is_call:
                    counts[name] += int(line.split()[1])
                is_call = False
    return counts


def name_of(symbol: str, binary: str) -> str:
    """Return a name to show: `gate.Gate.release`, `the interpreter`, or a symbol of a library."""
    if INTERPRETER.search(binary):
        return "the interpreter"
    found = COMPILED.match(symbol)
    if found is None:
        return symbol.partition("@")[0].partition("'")[0]
    parts: list[str] = []
    rest = symbol[found.end() :]
    while (size := PART.match(rest)) is not None:
        end = size.end() + int(size[1])
        parts.append(rest[size.end() : end])
        rest = rest[end:].removeprefix("_")
    return ".".join([*parts[-2:], rest.partition("'")[0]])
