"""Scripts of seriatim_js/ that run by themselves, and the lines that they say."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.packages.runtimes import QUIET, Runtime

END_S = 120.0


class Running:
    """A running script and the lines that it prints, which a thread reads as they come."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []
        self._looked_at = 0  # lines that `until` has returned
        self._is_over = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._take)
        self._thread.start()

    def _take(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def until(self, begin: str) -> list[str]:
        """Return what it says up to a line that begins so; all of it if there is none."""
        start = self._looked_at
        with self._changed:
            while True:
                while self._looked_at < len(self.lines):
                    line = self.lines[self._looked_at]
                    self._looked_at += 1
                    if begin and line.startswith(begin):
                        return self.lines[start : self._looked_at]
                if self._is_over:
                    assert not begin, f"no {begin!r} in\n" + "\n".join(self.lines[-50:])
                    return self.lines[start:]
                self._changed.wait()

    def goes_on(self, count: int) -> None:
        """Wait until it has said so many lines more than now."""
        with self._changed:
            enough = len(self.lines) + count
            self._changed.wait_for(lambda: self._is_over or len(self.lines) >= enough)
            assert len(self.lines) >= enough, "\n".join(self.lines[-50:])

    def tell(self) -> None:
        """Send it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> list[str]:
        """Return what it says up to its end, which must be a good one."""
        said = self.until("")
        assert self.process.wait(END_S) == 0, "\n".join(self.lines[-50:])
        return said

    def kill(self) -> None:
        self.process.kill()
        self._thread.join()


@contextmanager
def running(runtime: Runtime, laid: Path, script: str, *arguments: str) -> Iterator[Running]:
    with subprocess.Popen(
        [*runtime.run, script, *arguments],
        cwd=laid,
        env={**os.environ, **QUIET},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        killer = threading.Timer(END_S, process.kill)  # all that waits for it ends then
        killer.start()
        script_runs = Running(process)
        try:
            yield script_runs
        finally:
            killer.cancel()
            script_runs.kill()


@contextmanager
def reading(
    runtime: Runtime, laid: Path, way: str, port: int, **options: object
) -> Iterator[Running]:
    url = f"nats://127.0.0.1:{port}"
    with reading_from(runtime, laid, way, url, **options) as found:
        yield found


@contextmanager
def reading_from(
    runtime: Runtime, laid: Path, way: str, urls: str, **options: object
) -> Iterator[Running]:
    """`urls`: of several members of a cluster, with commas."""
    arguments = (way, urls, "orders.>", json.dumps(options))
    with running(runtime, laid, "reader.mjs", *arguments) as found:
        yield found
