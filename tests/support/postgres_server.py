"""A real PostgreSQL on a socket in a directory of its own; Debian's, installed if it is missing.

with PostgresServer() as database:
    database.address       for psycopg.connect
    database.kill()        SIGKILL to all of its processes; `start()` goes on with the same data
"""

import contextlib
import functools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.support.places import ROOT
from tests.support.readable import is_readable

READY_S = 60.0
STOP_S = 30.0
USER = "postgres"  # Debian's package makes it; the server does not run as root
# What a kill cannot take is enough: nobody cuts the power here.
SETTINGS = ("fsync=off", "listen_addresses=", "shared_buffers=16MB", "max_connections=20")


@functools.cache
def postgres_programs() -> Path:
    """The folder of `postgres` and `initdb`; installed now if there is none."""
    found = _newest()
    if found is None:
        subprocess.run([ROOT / ".ci" / "need", "postgresql"], check=True)
        found = _newest()
    assert found is not None, "postgresql installs /usr/lib/postgresql/*/bin"
    return found


def _newest() -> Path | None:
    folders = [one.parent for one in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    folders += [Path(on_path).resolve().parent] if on_path else []
    return max(folders, key=lambda one: [int(n) for n in one.parts if n.isdigit()], default=None)


class PostgresServer:
    """One cluster and its server; a context manager that never leaves it running."""

    def __init__(self) -> None:
        self._programs = postgres_programs()
        self._folder = Path(tempfile.mkdtemp(prefix="seriatim-postgres-"))
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam(USER)
            os.chown(self._folder, account.pw_uid, account.pw_gid)
            self._as = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None
        command = [str(self._programs / "initdb"), "--pgdata", f"{self._folder}/data", "--no-sync"]
        command += ["--username", USER, "--auth", "trust", "--locale", "C", "--encoding", "UTF8"]
        made = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._folder,
            check=False,
            **self._as,
        )
        assert made.returncode == 0, made.stdout.decode(errors="replace")

    @property
    def address(self) -> str:
        return f"host={self._folder} user={USER} dbname=postgres"

    def start(self) -> Self:
        """Start it, and return when it answers."""
        assert self._process is None, "already running"
        command = [str(self._programs / "postgres"), "-D", f"{self._folder}/data"]
        command += ["-k", str(self._folder), *(f"--{one}" for one in SETTINGS)]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                **self._as,
            )
        end = time.monotonic() + READY_S
        while self._process.poll() is None and time.monotonic() < end:
            try:
                self.connect().close()
                return self
            except psycopg.OperationalError:
                time.sleep(0.02)  # no event to await
        log_text = (self._folder / "log").read_text(errors="replace")
        if self._process.poll() is not None:
            self._process = None
        self.__exit__(None, None, None)
        raise AssertionError(f"PostgreSQL did not get ready:\n{log_text}")

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        return psycopg.connect(self.address, autocommit=True)

    def kill(self) -> None:
        """End all of its processes as `kill -9` does: each is in a session of its own."""
        process, self._process = self._process, None
        assert process is not None, "it runs"
        process.send_signal(signal.SIGSTOP)  # it starts no others meanwhile
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        others = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        handles = []
        for one in others:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                handles.append(os.pidfd_open(int(one)))
        process.kill()
        for handle in handles:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        process.wait(STOP_S)
        for handle in handles:  # the next server refuses to start beside one of them
            ended = is_readable(handle, STOP_S)
            os.close(handle)
            assert ended, "it is killed"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
