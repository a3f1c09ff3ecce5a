"""Run seeds by hand: python -m tests.broker.streams.simulate --seeds 0:70000 [--defect NAME]"""

import argparse
import multiprocessing
import time
from functools import partial

from broker.streams.stream_consumer import StreamConsumer
from tests.broker.streams.consumer_defects import DEFECTS
from tests.broker.streams.consumer_world import breach


def one(seed: int, defect: str, events: int) -> tuple[int, str]:
    return seed, breach(seed, DEFECTS[defect] if defect else StreamConsumer, events)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0:7000")
    parser.add_argument("--events", type=int, default=150)
    parser.add_argument("--defect", default="", choices=["", *DEFECTS], metavar="NAME")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    first, last = (int(word) for word in args.seeds.split(":"))
    begun, breaches = time.perf_counter(), []
    with multiprocessing.get_context("fork").Pool(args.processes) as pool:
        job = partial(one, defect=args.defect, events=args.events)
        for seed, text in pool.imap_unordered(job, range(first, last), 20):
            if text:
                breaches.append((seed, text))
    took = time.perf_counter() - begun
    events = (last - first) * args.events
    print(
        f"{events} events in {took:.0f} s; {len(breaches)} breaches",
        *sorted(breaches)[:5],
        sep="\n  ",
    )


if __name__ == "__main__":
    main()
