"""Keeps the few inputs found by fuzzing that reach code which the seeds do not.

    python -m fuzz.thin [TARGET ...]     build/fuzz/corpus/TARGET -> tests/corpus/TARGET

libFuzzer chooses them by the edges they reach, the smallest first. Inputs kept before under
libFuzzer's names (forty hexadecimal digits) take part in the choice.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from fuzz.__main__ import CORPUS, GROWN, command, environment
from fuzz.build import build
from fuzz.cases import CASES

GIVEN = re.compile(r"[0-9a-f]{40}\Z")
KEPT_MAX = 25  # inputs per target besides its seeds
SIZE_MAX = 1500  # bytes of an input


def thin(target: str) -> int:
    """Choose one target's inputs again; return how many there are."""
    tree, kept = build(), CORPUS / target
    with tempfile.TemporaryDirectory() as place:
        chosen, offered = Path(place, "chosen"), Path(place, "offered")
        chosen.mkdir()
        offered.mkdir()
        for file in kept.iterdir():
            if GIVEN.match(file.name):
                shutil.move(file, offered / file.name)
            else:
                shutil.copyfile(file, chosen / file.name)
        seeds = {file.name for file in chosen.iterdir()}
        for file in GROWN.joinpath(target).iterdir():
            if file.stat().st_size <= SIZE_MAX:
                shutil.copyfile(file, offered / file.name)
        again = Path(place, "again")
        again.write_text(f'#!/bin/sh\nexec {sys.executable} -m fuzz.drive {target} "$@"\n')
        again.chmod(0o755)
        flags = ["-merge=1", "-use_counters=0"]
        run = [*command(target, Path(place), flags), str(chosen), str(offered)]
        known = environment(tree) | {"FUZZ_AGAIN": str(again)}
        done = subprocess.run(run, cwd=tree, env=known, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{target}: libFuzzer could not merge\n{done.stderr[-4000:]}")
        found = [file for file in chosen.iterdir() if file.name not in seeds]
        found.sort(key=lambda file: (file.stat().st_size, file.name))
        for file in found[:KEPT_MAX]:
            shutil.move(file, kept / file.name)
    return len(list(kept.iterdir()))


if __name__ == "__main__":
    for name in sys.argv[1:] or list(CASES):
        print(f"{name}: {thin(name)} inputs")
