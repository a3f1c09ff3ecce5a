"""Run seeds by hand: python -m tests.replica.run --seeds 0:2000 [--defect NAME] [--processes N]"""

import argparse
import gc
import multiprocessing
import time
import traceback
from collections import Counter

from tests.replica.defects import DEFECTS
from tests.replica.faults import Run


def one(job: tuple[int, str]) -> tuple[int, str, Counter[str], int]:
    """A seed: what was breached, if something was; what happened; how many numbers."""
    seed, defect = job
    run = None
    try:
        run = Run(seed, DEFECTS[defect] if defect else None)
        run.go()
        return seed, "", Counter(run.stats), len(run.checker.order)
    except AssertionError as breach:
        text = str(breach) or traceback.format_exc().splitlines()[-2].strip()
        return seed, f"{type(breach).__name__}: {text}", Counter(), 0
    except Exception:
        return seed, "ERROR " + traceback.format_exc(), Counter(), 0


def begin_process() -> None:
    """A run makes much, and little of it is garbage: looked for seldom, that takes less time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0:200")
    parser.add_argument("--defect", default="", choices=["", *DEFECTS], metavar="NAME")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--stop", action="store_true", help="at the first breach")
    parser.add_argument("--show", type=int, default=5)
    args = parser.parse_args()
    first, last = (int(word) for word in args.seeds.split(":"))
    jobs = [(seed, args.defect) for seed in range(first, last)]
    begun = time.perf_counter()
    breaches: list[tuple[int, str]] = []
    stats: Counter[str] = Counter()
    numbers = done = 0
    with multiprocessing.Pool(args.processes, begin_process) as pool:
        for seed, breach, counted, length in pool.imap_unordered(one, jobs, chunksize=4):
            done += 1
            stats += counted
            numbers += length
            if breach:
                breaches.append((seed, breach))
                if args.stop:
                    break
    took = time.perf_counter() - begun
    kinds = Counter(":".join(text.split(":")[:2]) for _, text in breaches)
    print(
        f"{args.defect or 'no defect'}: {done} seeds in {took:.1f} s, {done / took:.1f} seeds/s;"
        f" {numbers} numbers; {len(breaches)} breaches {dict(kinds)}"
    )
    for seed, text in sorted(breaches)[: args.show]:
        print(f"  seed {seed}: {text}")
    if not args.defect:
        print("  " + ", ".join(f"{name} {count}" for name, count in sorted(stats.items())))


if __name__ == "__main__":
    main()
