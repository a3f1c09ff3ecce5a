"""Run a built image as a container engine would, and say what was seen; exit 1 at the first fault.

    prove_image.py ROOT INSPECTED

ROOT is the mounted file system of the image, INSPECTED the JSON of `buildah inspect`. Root's
rights are needed. It must run in a network namespace of its own (`unshare --net`): there, the
image's own ports are free on any machine, and nothing but loopback can be reached.

The image's ENTRYPOINT and CMD run as the image's USER, in the image's WORKDIR, with the image's
ENV and nothing of ours, chrooted, read-only but for the image's VOLUME, as process 1 of a process
namespace: a process 1 gets no signal it has no handler for, and this is where many images fail at
`docker stop`. They run twice, the second time on the volume that the first has left.
"""

import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

READY_SECONDS, STOP_SECONDS = 30.0, 5.0
SERIATIM = "/opt/seriatim/bin/seriatim"
ELSEWHERE = "127.0.0.2"  # an address that whoever is bound to 127.0.0.1 does not have
PING = b"PING\r\n"  # two seconds after CONNECT, and amid the rest on a slow machine
COMPILERS = ("gcc", "cc", "c++", "clang", "tcc", "make")

# Run by a shell in fresh namespaces, with ROOT, USER, WORKDIR, VOLUME and where that is kept as its
# first words. There the image is read-only, as with `docker run --read-only`.
ENTER = """
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && mount --bind "$5" "$1$4" || exit 125
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" || exit 125
root=$1 user=$2 home=$3; shift 5
cd / && exec chroot --userspec="$user" "$root" /usr/bin/env -i --chdir="$home" "$@"
"""

# Run by the image's Python: where the hot modules really come from.
WHERE = """
import importlib
from broker.version import hot_modules
for name in hot_modules(): print(importlib.import_module(name).__file__)
"""


class Fault(Exception):
    """The image does not do what it must."""


def check(holds: bool, what: str) -> None:
    """Print what was seen, or stop."""
    if not holds:
        raise Fault(what)
    print(f"ok: {what}", flush=True)


@dataclass(frozen=True)
class Image:
    """What a container engine needs to know of an image."""

    root: str
    kept: str  # this machine's directory for the volume
    user: str
    workdir: str
    volume: str
    environment: tuple[str, ...]
    command: tuple[str, ...]
    health: tuple[str, ...]
    stop_signal: int
    ports: frozenset[int]

    @classmethod
    def inspected(cls, root: str, kept: str, inspected: dict[str, Any]) -> "Image":
        config = inspected["Docker"]["config"]
        test = config.get("Healthcheck", {}).get("Test", [])
        (volume,) = config["Volumes"]
        return cls(
            root=root,
            kept=kept,
            user=config["User"],
            workdir=config["WorkingDir"] or "/",
            volume=volume,
            environment=tuple(config["Env"]),
            command=(*config["Entrypoint"], *config["Cmd"]),
            health=tuple(test[1:]),
            stop_signal=signal.Signals[config.get("StopSignal") or "SIGTERM"],
            ports=frozenset(int(port.partition("/")[0]) for port in config["ExposedPorts"]),
        )

    def entering(self, command: tuple[str, ...]) -> list[str]:
        """Return the command line that runs `command` in the image, as process 1 of its own."""
        fresh = ("unshare", "--mount", "--pid", "--fork", "--uts", "--ipc")
        place = (self.root, self.user, self.workdir, self.volume, self.kept)
        return [*fresh, "sh", "-c", ENTER, "enter", *place, *self.environment, *command]

    def make_volume(self) -> None:
        """Give the volume the owner that its place has in the image, as an engine does."""
        place = os.stat(self.root + self.volume)
        os.chown(self.kept, place.st_uid, place.st_gid)
        os.chmod(self.kept, place.st_mode & 0o777)

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.entering(command), capture_output=True, text=True, check=False, timeout=60
        )


def check_contents(image: Image) -> None:
    """What is in the image, and what must not be."""
    root = Path(image.root)
    found = [name for name in COMPILERS if (root / "usr/bin" / name).exists()]
    check(not found, f"no compiler in the image; looked for {COMPILERS}, found {found}")
    check(not list(root.glob("opt/*/bin/pip*")), "no pip in the shipped environment")
    mounted = [root / "etc/pip.conf", *root.glob("mnt/machine/**/*")]  # empty places may remain
    kept = [path for path in mounted if path.is_file() and path.stat().st_size]
    check(not kept, "nothing of the building machine's pip settings in the image")
    identity = image.run("/usr/bin/id", "-u").stdout.strip()
    check(identity.isdigit() and identity != "0", f"the image's user is {identity}, not root")
    touched = image.run("/usr/bin/touch", "/tmp/here")
    check("Read-only" in touched.stderr, "what follows runs with a read-only file system")
    touched = image.run("/usr/bin/touch", f"{image.volume}/here")
    check(touched.returncode == 0, f"but for the volume {image.volume} {touched.stderr}".rstrip())
    os.unlink(Path(image.kept) / "here")
    answer = image.run("/opt/seriatim/bin/python", "-I", "-c", WHERE)
    files = answer.stdout.split()
    compiled = [file for file in files if file.endswith(".so")]
    told = f"{len(compiled)} of {len(files)} hot modules are compiled {answer.stderr}"
    check(0 < len(files) == len(compiled), told.strip())
    version = image.run(SERIATIM, "version")
    check(version.returncode == 0, f"`seriatim version` says {version.stdout.strip()!r}")


@dataclass
class Broker:
    """The running image: the process that holds its namespaces, and what it logged so far."""

    process: "subprocess.Popen[bytes]"
    log: str = ""

    @property
    def pid(self) -> int:
        """Process 1 of the image, as this machine numbers it."""
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                if f"\nPPid:\t{self.process.pid}\n" in status.read_text():
                    return int(status.parent.name)
            except OSError:
                continue  # it ended while we looked
        raise Fault(f"the broker is not running; it said:\n{self.log}")

    def status(self) -> dict[str, str]:
        """What the kernel says of the broker's process."""
        rows = (Path("/proc") / str(self.pid) / "status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (row.partition(":") for row in rows)}

    def show_log(self) -> None:
        print("".join(f"   | {row}\n" for row in self.log.splitlines()), end="", flush=True)

    def read_log(self, until: str, seconds: float) -> None:
        """Read the log until a line holds `until`, or to its end where that is empty."""
        deadline = time.monotonic() + seconds
        pipe = self.process.stderr
        assert pipe is not None
        while not until or until not in self.log:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise Fault(f"waited {seconds} s for {until or 'its end'!r}; it said:\n{self.log}")
            more = os.read(pipe.fileno(), 65536)
            self.log += more.decode(errors="replace")
            if not more:
                if until:
                    raise Fault(f"the broker ended by itself; it said:\n{self.log}")
                return


@contextmanager
def running(image: Image) -> Iterator[Broker]:
    """Run the image's ENTRYPOINT and CMD; kill it if it is still there at the end."""
    with subprocess.Popen(image.entering(image.command), stderr=subprocess.PIPE) as process:
        broker = Broker(process)
        try:
            yield broker
        except (Fault, OSError):
            with suppress(Fault):
                broker.read_log("", 0.5)
            broker.show_log()
            raise
        finally:
            # Process 1 takes its namespace along. unshare could not: the order to die with a
            # parent is forgotten where a process changes its user.
            with suppress(Fault, ProcessLookupError):
                os.kill(broker.pid, signal.SIGKILL)
            process.kill()


def is_closed(host: str, port: int) -> bool:
    """Whether nothing listens there."""
    with socket.socket() as client:
        client.settimeout(READY_SECONDS)
        return client.connect_ex((host, port)) == errno.ECONNREFUSED


def line(wire: BinaryIO) -> bytes:
    """Return one protocol line but the broker's PINGs; an empty one where the connection ended."""
    while (found := wire.readline()) == PING:
        pass
    return found.rstrip(b"\r\n")


@contextmanager
def conversation(port: int) -> Iterator[BinaryIO]:
    """Publish and receive over loopback; give what the subscriber reads from, still open."""
    with ExitStack() as open_ones:

        def connect() -> tuple[socket.socket, BinaryIO]:
            client = open_ones.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            return client, open_ones.enter_context(client.makefile("rb"))

        subscriber, wire = connect()
        check(line(wire).startswith(b"INFO {"), f"a client on port {port} is greeted with INFO")
        subscriber.sendall(b'CONNECT {"verbose":false}\r\nSUB proof.> 1\r\nPING\r\n')
        check(line(wire) == b"PONG", "the subscriber's PING is answered")
        publisher, answers = connect()
        line(answers)
        publisher.sendall(b'CONNECT {"verbose":false}\r\n')
        publisher.sendall(b"PUB proof.a 5\r\nhello\r\nPUB proof.b 0\r\n\r\nPING\r\n")
        check(line(answers) == b"PONG", "the publisher's messages are taken")
        for subject, frame in ((b"proof.a", b"12:1:1,5:hello,,"), (b"proof.b", b"7:1:2,0:,,")):
            head, body = line(wire), line(wire)
            wanted = b"MSG %b 1 %d" % (subject, len(frame))
            told = f"the subscriber receives {head.decode()} {body.decode()}"
            check((head, body) == (wanted, frame), told)
        yield wire


def prove(image: Image) -> None:
    check_contents(image)
    check(image.ports == {4222}, "only port 4222 is exposed")
    print(f"--- running as {image.user}: {' '.join(image.command)}", flush=True)
    with running(image) as broker:
        broker.read_log("Server is ready", READY_SECONDS)
        seen = broker.status()
        check(seen["NSpid"].split()[-1] == "1", "the broker is process 1 of its namespace")
        check(int(seen["CapEff"], 16) == 0, "it has no capabilities")
        print(f"   (its peak memory after the start: {int(seen['VmHWM'].split()[0]) // 1024} MiB)")
        with conversation(4222) as wire:
            sent = image.run(SERIATIM, "pub", "proof.c", "again", "--ack")
            told = f"`seriatim pub --ack` in the image prints {sent.stdout.strip()!r} {sent.stderr}"
            check(sent.returncode == 0 and "3" in sent.stdout, told.strip())
            check(not is_closed(ELSEWHERE, 4222), "clients are let in on every address")
            check(is_closed(ELSEWHERE, 8222), "the monitoring port is open on 127.0.0.1 alone")
            healthy = image.run(*image.health)
            check(healthy.returncode == 0, f"HEALTHCHECK exits 0 {healthy.stderr.strip()}".strip())
            asked = time.monotonic()
            os.kill(broker.pid, image.stop_signal)
            broker.read_log("", STOP_SECONDS)
            status = broker.process.wait(STOP_SECONDS)
            took = time.monotonic() - asked
            name = signal.Signals(image.stop_signal).name
            check(status == 0, f"after {name} it exits with status {status} in {took:.2f} s")
            wanted = b"MSG proof.c 1 16\r\n12:1:3,5:again,,\r\n"
            check(
                wire.read().replace(PING, b"") == wanted,
                "the subscriber has that message too, and then an orderly end",
            )
        check("Traceback" not in broker.log, "no traceback in its log, which was:")
        broker.show_log()
    dead = image.run(*image.health)
    told = dead.stderr.strip()
    check(dead.returncode == 1 and "\n" not in told, f"HEALTHCHECK exits 1 afterwards: {told}")


def prove_kept(image: Image) -> None:
    """Run it once more, and ask for what the first broker was given."""
    with running(image) as broker:
        broker.read_log("Server is ready", READY_SECONDS)
        with replayed(4222) as wire:
            for number, subject, payload in ((1, "a", "hello"), (2, "b", ""), (3, "c", "again")):
                line(wire)
                frame = f"1:{number},{len(payload)}:{payload},"
                seen, wanted = line(wire).decode(), f"{len(frame)}:{frame},"
                check(seen == wanted, f"a new broker on that volume replays proof.{subject} {seen}")
            check(line(wire) == b"MSG $SEQ.END.3 1 0", "and says that this is the end")
        sent = image.run(SERIATIM, "pub", "proof.d", "on", "--ack")
        told = f"`seriatim pub --ack` prints {sent.stdout.strip()!r} now {sent.stderr}"
        check(sent.returncode == 0 and "4" in sent.stdout, told.strip())


@contextmanager
def replayed(port: int) -> Iterator[BinaryIO]:
    """What a client reads that asks for the numbers 1 to 3."""
    with socket.create_connection(("127.0.0.1", port), 10) as client, client.makefile("rb") as wire:
        line(wire)
        client.sendall(b'CONNECT {"verbose":false}\r\nSUB $SEQ.RANGE.1.3.> 1\r\n')
        yield wire


def main(root: str, inspected: str) -> None:
    with TemporaryDirectory(prefix="seriatim-volume-") as kept:
        with open(inspected, encoding="utf-8") as file:
            image = Image.inspected(root, kept, json.load(file))
        image.make_volume()
        try:
            prove(image)
            prove_kept(image)
        except (Fault, OSError, subprocess.TimeoutExpired) as fault:
            sys.exit(f"NOT PROVEN, this does not hold: {fault}")


if __name__ == "__main__":
    main(*sys.argv[1:])
