"""Runs the corpus of some targets once, in the sanitized process that fuzz/__main__.py starts.

python -m fuzz.corpus FOLDER TARGET ...

Importing everything under the sanitizer takes longer than all inputs together. So it is done once,
and each target is a fork: it ends at an input that breaks it, and the next target runs all the
same. Says `TARGET COUNT` for each that survived its inputs.
"""

import faulthandler
import gc
import os
import sys
from pathlib import Path

from fuzz.build import SLOWEST, check_build
from fuzz.cases import CASES

COLLECT_EVERY = 16  # inputs, as fuzz/drive.py does


def main() -> None:
    """Run each target; the exit status is 1 if one broke."""
    check_build()
    gc.disable()
    gc.freeze()
    corpus, *targets = sys.argv[1:]
    is_broken = False
    for target in targets:
        pid = os.fork()
        if not pid:
            run(target, sorted(Path(corpus, target).iterdir()))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        is_broken |= bool(status)
    sys.exit(is_broken)


def run(target: str, inputs: list[Path]) -> None:
    """Try each input. The last one that stderr names is the one that broke it."""
    check = CASES[target].check
    for count, file in enumerate(inputs, 1):
        sys.stderr.write(f"{target}/{file.name}\n")
        faulthandler.dump_traceback_later(SLOWEST, exit=True)
        check(file.read_bytes())
        if count % COLLECT_EVERY == 0:
            gc.collect()
    faulthandler.cancel_dump_traceback_later()
    print(target, len(inputs), flush=True)


if __name__ == "__main__":
    main()
