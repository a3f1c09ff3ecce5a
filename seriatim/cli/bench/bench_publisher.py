"""A publisher that waits for no answers: it sends large pieces of ready messages."""

import time
from typing import Final

from seriatim.bench.message_block import MessageBlock, key_of
from seriatim.cli.bench.bench_connection import bench_connection
from seriatim.cli.bench.bench_plan import BenchPlan
from seriatim.cli.bench.bench_process import Work, WorkerPost, WorkerReport
from seriatim.cli.bench.pacing import SendPace

SLEEP_MAX: Final = 0.1  # seconds; then the broker's PINGs are answered


def publish_plainly(plan: BenchPlan, run: int, index: int) -> Work:
    """Return the work of publisher `index`."""

    def work(post: WorkerPost, report: WorkerReport) -> None:
        block = MessageBlock(plan.subject_names(), plan.size, key_of(run, index))
        with bench_connection(plan, f"publisher {index + 1}") as connection:
            connection.flush()
            pace = SendPace.of(plan, index, post.await_go())
            report.begin_ns = time.monotonic_ns()
            sent = 0
            try:
                while (due := pace.due(sent)) >= 0:
                    if due == 0:
                        time.sleep(min(pace.seconds_to(sent), SLEEP_MAX))
                    else:
                        count = block.stamp(sent, due, pace.start, pace.interval)
                        connection.send(block.stamped(sent, count))
                        sent += count
                        post.note(sent)
                    connection.heed()
                connection.flush()
                report.is_complete = True
            finally:
                report.end_ns = time.monotonic_ns()
                report.cpu_seconds = post.cpu_seconds()
                report.messages, report.payload_bytes = sent, sent * plan.size

    return work
