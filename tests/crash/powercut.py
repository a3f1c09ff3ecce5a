"""What a disk would hold after a power cut at any moment, from the record that disk.c writes.

    before = Disk(store)                     what the directory holds now, all of it durable
    ...                                      a program runs there under disk.c, and is killed
    past = read_log(log)
    before.cut(past, at).lay_out(folder)     the directory as the cut at time `at` leaves it

The strict disk keeps what a finished fsync or fdatasync covers, and nothing else: not a byte, not a
longer file, and no name that an fsync of its directory does not cover. Given chance, it also keeps
some of the rest: any pages, in any order, torn at 512 bytes; any later size of the file, with zeros
where nothing was written; some of the names, in order of creation. What a program writes through a
mapping is such a write, at the latest at its next call: nothing syncs it, and any page of it may be
left in any of its states. After a cut the machine is started again, as a journal window notices.

Times are chosen against the program: a write counts from its end; a sync covers what had ended when
it began, and counts from its end; a send has happened when it began.
"""

import copy
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.crash.shim import preload
from tests.support.windows import boot_again, stay_up

ENTRY = struct.Struct("<IIQQQqIIII")
OPEN, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MAKE_DIR, SEND, CLOSE, UNSEEN, LEFT = range(1, 12)
O_TRUNC = 0o1000
SECTOR = 512


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing the program did. `inode` is the descriptor for SEND and CLOSE."""

    what: int
    flags: int
    begin: int
    end: int
    inode: int
    offset: int
    path: str
    to: str
    data: bytes


def read_log(log: Path) -> list[Entry]:
    """All entries of all processes, in the order in which they ended."""
    found = []
    for file in log.parent.glob(f"{log.name}.*"):
        data, at = file.read_bytes(), 0
        while at + ENTRY.size <= len(data):
            what, flags, begin, end, inode, offset, path, to, size, _ = ENTRY.unpack_from(data, at)
            at += ENTRY.size
            words = data[at : at + path].decode(), data[at + path : at + path + to].decode()
            at += path + to
            if at + size > len(data):
                break  # it was killed in the middle of this
            entry = Entry(what, flags, begin, end, inode, offset, *words, data[at : at + size])
            assert what != UNSEEN, f"the shim cannot follow {entry.path} on a file of the store"
            found.append(entry)
            at += size
    return sorted(found, key=lambda entry: entry.end)


def note_survivors(root: Path, log: Path) -> None:
    """Write down what a killed process has left in the kernel's hands, none of it synced.

    It may have been killed between doing something and writing that down: a file that is gone
    would stay here, and be taken for the next one of that name.
    """
    now = time.monotonic_ns()
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    with log.with_name(f"{log.name}.{now}").open("wb") as file:
        names = "\0".join(map(str, paths)).encode()
        file.write(ENTRY.pack(LEFT, 0, now, now, 0, 0, 0, 0, len(names), 0) + names)
        for path in paths:
            inode, name, data = path.stat().st_ino, str(path).encode(), path.read_bytes()
            head = (0, now, now, inode)
            file.write(ENTRY.pack(OPEN, *head, 0, len(name), 0, 0, 0) + name)
            file.write(ENTRY.pack(TRUNCATE, *head, len(data), 0, 0, 0, 0))
            file.write(ENTRY.pack(WRITE, *head, 0, 0, 0, len(data), 0) + data)


@dataclass(slots=True)
class File:
    """What is durable of a file, and what came since: writes and sizes, oldest first."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Entry] = field(default_factory=list)

    def sync(self, begin: int) -> None:
        """All that had ended at `begin` is durable."""
        for entry in self.pending:
            if entry.end <= begin:
                apply(self.durable, entry)
        self.pending = [entry for entry in self.pending if entry.end > begin]

    def left(self, chance: Random | None) -> bytes:
        """What a power cut leaves of it; with no chance at all, what a sync has covered."""
        data = bytearray(self.durable)
        if chance is None or not self.pending:
            return bytes(data)
        known = chance.randint(0, len(self.pending))  # the file system knows of this many sizes
        keep = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        size = len(data)
        for at, entry in enumerate(self.pending):
            if entry.what == TRUNCATE:
                if at < known:
                    size = entry.offset
                    apply(data, entry)
                continue
            if at < known:
                size = max(size, entry.offset + len(entry.data))
            for piece in sectors(entry):
                if chance.random() < keep:
                    apply(data, piece)
        return bytes(data[:size].ljust(size, b"\0"))


def sectors(entry: Entry) -> Iterable[Entry]:
    """A write in the pieces that a disk writes whole."""
    at, stop = entry.offset, entry.offset + len(entry.data)
    while at < stop:
        end = min((at // SECTOR + 1) * SECTOR, stop)
        part = entry.data[at - entry.offset : end - entry.offset]
        yield Entry(WRITE, 0, entry.begin, entry.end, entry.inode, at, "", "", part)
        at = end


def apply(data: bytearray, entry: Entry) -> None:
    """Do to a file's bytes what the entry did."""
    end = entry.offset + len(entry.data)
    if entry.what == TRUNCATE:
        del data[entry.offset :]
    if len(data) < end:
        data.extend(bytes(end - len(data)))
    data[entry.offset : end] = entry.data


Names = dict[str, File | None]  # None: a directory


@dataclass(slots=True)
class Change:
    """A change of names that no sync of its directory covers yet."""

    entry: Entry
    file: File | None

    def apply(self, names: Names) -> None:
        path = self.entry.path
        if self.entry.what == RENAME:
            inside = [name for name in names if name == path or name.startswith(path + "/")]
            for name in inside:
                names[self.entry.to + name[len(path) :]] = names.pop(name)
            if not inside:  # the name it had was never durable: it comes with the new one
                names[self.entry.to] = self.file
        elif self.entry.what == UNLINK:
            names.pop(path, None)
        else:
            names[path] = self.file

    def is_in(self, folder: str) -> bool:
        paths = [self.entry.path, *([self.entry.to] if self.entry.to else [])]
        return any(path.rpartition("/")[0] == folder for path in paths)


class Disk:
    """A directory as it is when this is made, taken for durable, and what is done to it."""

    def __init__(self, root: Path) -> None:
        self.root = root = root.resolve()
        self.durable: Names = {str(root): None}
        self.names: Names = {}  # as the program sees them
        self.files: dict[int, File] = {}  # by inode, the present holder of the number
        self.folders: dict[int, str] = {root.stat().st_ino: str(root)}
        self.changes: list[Change] = []
        self.is_up = False  # the machine is the same one: all that was written is there
        for path in sorted(root.rglob("*")):
            if path.is_dir():
                self.folders[path.stat().st_ino] = str(path)
                self.durable[str(path)] = None
            else:
                file = self.files[path.stat().st_ino] = File(bytearray(path.read_bytes()))
                self.durable[str(path)] = file
        self.names.update(self.durable)

    def cut(self, past: Iterable[Entry], at: int) -> "Disk":
        """The same directory at the time `at`, after what had been done to it by then."""
        return copy.deepcopy(self).play(past, at)

    def play(self, past: Iterable[Entry], at: int) -> "Disk":
        """Do all that had begun at the time `at`; what had not ended then is not durable."""
        for entry in past:
            if entry.begin > at:
                continue
            if entry.what in (WRITE, TRUNCATE):
                self.files[entry.inode].pending.append(entry)
            elif entry.what == SYNC:
                if entry.end <= at:
                    self._sync(entry)
            elif entry.what in (OPEN, MAKE_DIR, RENAME, UNLINK):
                self._rename(entry)
            elif entry.what == LEFT:
                self._forget_all_but(entry)
        return self

    def _forget_all_but(self, left: Entry) -> None:
        """Files that a killed process had removed, and not written that down."""
        there = left.data.decode().split("\0")
        for path in [path for path, file in self.names.items() if file and path not in there]:
            self._change(Entry(UNLINK, 0, left.begin, left.end, 0, 0, path, "", b""), None)

    def _sync(self, entry: Entry) -> None:
        if not entry.flags:
            self.files[entry.inode].sync(entry.begin)
            return
        folder = self.folders[entry.inode]
        waiting, self.changes = self.changes, []
        for change in waiting:
            if change.entry.end <= entry.begin and change.is_in(folder):
                change.apply(self.durable)
            else:
                self.changes.append(change)

    def _rename(self, entry: Entry) -> None:
        file = None
        if entry.what == OPEN:
            file = self.names.get(entry.path)
            if file is None:  # a new one; its inode's number may be an old one
                file = self.files[entry.inode] = File()
                self._change(entry, file)
            elif entry.flags & O_TRUNC:
                emptied = Entry(TRUNCATE, 0, entry.begin, entry.end, entry.inode, 0, "", "", b"")
                file.pending.append(emptied)
            return
        if entry.what == MAKE_DIR:
            self.folders[entry.inode] = entry.path
        elif entry.what == RENAME:
            file = self.names.get(entry.path)
            for inode, folder in self.folders.items():
                if folder == entry.path:
                    self.folders[inode] = entry.to
        self._change(entry, file)

    def _change(self, entry: Entry, file: File | None) -> None:
        change = Change(entry, file)
        change.apply(self.names)
        self.changes.append(change)

    def sync_all(self) -> "Disk":
        """As if the whole disk were synced: what the program itself would read."""
        for file in {id(file): file for file in self.names.values() if file}.values():
            file.sync(max((entry.end for entry in file.pending), default=0))
        self.is_up = True
        self.durable, self.changes = dict(self.names), []
        return self

    def lay_out(self, folder: Path, chance: Random | None = None) -> Path:
        """Write the directory into `folder` (replaced) as the power cut leaves it."""
        names = dict(self.durable)
        if chance is not None:
            for change in self.changes[: chance.randint(0, len(self.changes))]:
                change.apply(names)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, file in sorted(names.items()):
            path = folder / Path(name).relative_to(self.root)
            if file is None:
                path.mkdir(exist_ok=True, parents=True)
            elif path.parent.exists():
                path.write_bytes(file.left(chance))
        (stay_up if self.is_up else boot_again)(folder)
        return folder


def streams(past: Iterable[Entry], at: int) -> list[bytes]:
    """What each connection had been sent at the time `at`."""
    open_now: dict[int, bytearray] = {}
    done: list[bytes] = []
    for entry in sorted(past, key=lambda entry: entry.begin):
        if entry.begin > at:
            break
        if entry.what == SEND:
            open_now.setdefault(entry.inode, bytearray()).extend(entry.data)
        elif entry.what == CLOSE and entry.inode in open_now:
            done.append(bytes(open_now.pop(entry.inode)))
    return done + [bytes(data) for data in open_now.values()]


Life = tuple[Disk, list[Entry], Path]  # what was there before, what was done, where to lay it out


def watched_life(folder: Path, module: str, seed: int) -> Life:
    """Run `work(path, seed, socket)` of a module under the shim, in a process of its own."""
    store, log = folder / "store", folder / "log"
    store.mkdir()
    before = Disk(store)
    ours, theirs = socket.socketpair()
    program = (
        f"import socket, sys; from {module} import work;"
        f"work(sys.argv[1], {seed}, socket.socket(fileno={theirs.fileno()}))"
    )
    with ours, theirs:
        subprocess.run(
            [sys.executable, "-c", program, str(store)],
            env=preload(store, log),
            pass_fds=[theirs.fileno()],
            check=True,
            timeout=120,
        )
    return before, read_log(log), folder / "left"
