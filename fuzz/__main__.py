"""Fuzz the compiled kernels: `python -m fuzz [TARGET ...] [--seconds 60]`.

Builds what is needed, then runs each target for that time in a process of its own, with the
sanitizer's runtime preloaded. New inputs are collected in build/fuzz/corpus/TARGET, libFuzzer's
output in build/fuzz/TARGET.log. An input that breaks something is left in
tests/corpus/found/TARGET, and the exit status is 1. With `--corpus`, the inputs in tests/corpus run
once, and nothing else does.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from fuzz.build import ROOT, SLOWEST, build, passed_with
from fuzz.cases import CASES

CORPUS = ROOT / "tests" / "corpus"
WORDS = ROOT / "fuzz" / "words.dict"
GROWN = ROOT / "build" / "fuzz" / "corpus"
ERROR_MAX = 8000  # characters of a broken run's output; build/fuzz has all of it
PROGRESS = re.compile(r"#\d+\t|INFO: ")  # libFuzzer's output while all is well
MEMORY_MIB = 1024
ONE_BLOCK_MIB = 96  # more than any legitimate buffer: 64 MiB is the largest message
ASAN_OPTIONS = "detect_leaks=0:quarantine_size_mb=32"
# libFuzzer watches the sizes while it fuzzes; without it the sanitizer does.
FUZZING = f"{ASAN_OPTIONS}:allocator_may_return_null=1"
CORPUS_ONLY = (
    f"{ASAN_OPTIONS}:max_allocation_size_mb={ONE_BLOCK_MIB}:hard_rss_limit_mb={MEMORY_MIB}"
)


def runtime() -> Path:
    """The library of atheris with the sanitizer and libFuzzer, for preloading."""
    found = find_spec("atheris")
    if found is None or found.origin is None:
        raise SystemExit("fuzz: atheris is not installed; run fuzz/run, which sees to it")
    return Path(found.origin).parent.parent / "asan_with_fuzzer.so"


def environment(tree: Path, options: str = FUZZING) -> dict[str, str]:
    """Return the sanitized process's environment. Every bytearray must be a block of its own."""
    return os.environ | {
        "LD_PRELOAD": str(runtime()),
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(tree),
        "ASAN_OPTIONS": options,
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def command(target: str, found: Path, flags: Iterable[str]) -> list[str]:
    """Return the command of a libFuzzer run, without its corpora."""
    return [
        sys.executable,
        "-m",
        "fuzz.drive",
        target,
        f"-max_len={CASES[target].max_len}",
        f"-artifact_prefix={found}/",
        f"-timeout={SLOWEST}",
        f"-rss_limit_mb={MEMORY_MIB}",
        f"-malloc_limit_mb={ONE_BLOCK_MIB}",
        *flags,
    ]


def fuzz(target: str, seconds: int, extra: list[str]) -> bool:
    """Fuzz one target; return whether it survived."""
    tree = build()
    found, grown, seeds = CORPUS / "found" / target, GROWN / target, CORPUS / target
    for folder in (found, grown):
        folder.mkdir(parents=True, exist_ok=True)
    print(f"{target}: {seconds} s ...", end=" ", flush=True)
    flags = [f"-max_total_time={seconds}", f"-dict={WORDS}", "-print_funcs=0", *extra]
    run = [*command(target, found, flags), str(grown), str(seeds)]
    done = subprocess.run(run, cwd=tree, env=environment(tree), stderr=subprocess.PIPE)
    said = done.stderr.decode(errors="replace")
    GROWN.parent.joinpath(f"{target}.log").write_text(said)
    if done.returncode:
        told = "\n".join(line for line in said.splitlines() if not PROGRESS.match(line))
        said = f"BROKEN\n{told[-ERROR_MAX:]}"
    print(said if done.returncode else summary(said), flush=True)
    return done.returncode == 0


def run_corpus(targets: list[str]) -> list[str]:
    """Run the corpora once, but for those that have passed as all is now; return what broke."""
    stamps = GROWN.parent / "passed"
    stamps.mkdir(parents=True, exist_ok=True)
    digests = {target: passed_with(target, CORPUS / target) for target in targets}
    for target, digest in list(digests.items()):
        stamp = stamps / target
        if stamp.exists() and stamp.read_text() == digest:
            print(f"{target}: as it was when it passed", flush=True)
            del digests[target]
    if not digests:
        return []
    tree = build(is_once=True)
    run = [sys.executable, "-m", "fuzz.corpus", str(CORPUS), *digests]
    done = subprocess.run(
        run, cwd=tree, env=environment(tree, CORPUS_ONLY), capture_output=True, text=True
    )
    for line in done.stdout.splitlines():
        target, count = line.split()
        print(f"{target}: {count} inputs", flush=True)
        (stamps / target).write_text(digests.pop(target))
    if digests:
        print(done.stderr[-ERROR_MAX:], file=sys.stderr)
    return list(digests)


def summary(said: str) -> str:
    """Count the inputs, and the edges of the compiled modules and the control they reached."""
    began, ended = (re.findall(rf"{word} +cov: (\d+)", said) for word in ("INITED", "DONE"))
    runs = re.findall(r"Done (\d+) runs", said)
    if not runs or not ended:
        return "no summary"
    return f"{runs[-1]} inputs, {ended[-1]} edges (the corpus alone: {began[-1] if began else 0})"


def replay(target: str, files: list[str]) -> bool:
    """Run inputs once under the sanitizer, to see if they break something."""
    tree = build()
    run = command(target, CORPUS / "found" / target, []) + [str(Path(f).resolve()) for f in files]
    return subprocess.run(run, cwd=tree, env=environment(tree)).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(CASES))
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--replay", nargs="+", metavar="FILE", help="inputs to run once instead")
    parser.add_argument("--corpus", action="store_true", help="run what is kept once, no more")
    parser.add_argument("--flag", action="append", default=[], help="one more for libFuzzer")
    chosen = parser.parse_args()
    targets = chosen.targets or list(CASES)
    wrong = [name for name in targets if name not in CASES]
    if wrong:
        parser.error(f"no such target: {', '.join(wrong)}; there are {', '.join(CASES)}")
    if chosen.replay:
        return 0 if replay(targets[0], chosen.replay) else 1
    if chosen.corpus:
        broken = run_corpus(targets)
    else:
        broken = [name for name in targets if not fuzz(name, chosen.seconds, chosen.flag)]
    for name in broken:
        folder = name if chosen.corpus else f"found/{name}"
        print(f"fuzz: {name} broke; its input is in {CORPUS / folder}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
