"""What a member remembers of itself: `cluster/member.json` in the directory of its store.

    {"format":1,"cluster":"orders","member":"3f0c...","epoch":7,"revision":123,"view":{...},
     "reserve":42,"run":41,"closed":false,"boot":"5d1c...","sync":"interval","stream":1,"place":131074,
     "engine":"0482...","addresses":{"3f0c...":"10.0.0.1:6222"},"crc":123}

The file has a checksum, and is replaced as a whole and synced at each change, which are few.

1. An epoch is on the disk before anything is said in it: `learn` returns then.
2. Who may have lost what it acknowledged is somebody else: `why_renewed` decides at each start,
   and `renew` draws a new id after a sync that failed. The old id stays in the view, like any
   member that died.
3. A store that was put back is a copy of the past: it lacks what the member has acknowledged since.
   So each process is registered in the engine, under a number above all before. A store that does
   not know the newest one is such a copy (`is_outdated`), and becomes somebody else, too. The
   number is on the disk before the engine has it (`claimed`), and noted as `registered` after.
4. A number for a process is used once: `take_reserve` forgets it on the disk before it returns it.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from broker.storage.member_store import FILE, FOLDER
from sequencer.journal.crc import crc32c
from sequencer.journal.disk import make_folder, replace_or_overwrite
from sequencer.journal.errors import StoreError
from sequencer.replica.view import BadView, View, view_from_json

FORMAT: Final = 1
BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
SYNCED: Final = "always"  # journal.sync of a member that acknowledges only what is synced


@dataclass(frozen=True, slots=True)
class Remembered:
    """The content of the file."""

    cluster: str
    member: str  # the id, 16 hex digits
    epoch: int = 0  # the highest heard of
    revision: int = 0
    view: View | None = None
    reserve: int = 0  # a number for a process that starts without the engine; 0: none
    run: int = 0  # the newest process of this member
    claimed: int = 0  # a number that the engine was to register
    registered: int = 0  # the newest that it has registered, as far as the store knows
    closed: bool = True  # nothing that it acknowledged can be missing from the disk
    boot: str = ""  # of the machine, when it was open
    sync: str = SYNCED  # the weakest of journal.sync while this id has acknowledged anything
    stream: int = 0  # of the view whose log the journal is; `cluster recover` begins another one
    place: int = 0  # the folder's inode: that of a copy is another one
    engine: str = ""  # which engine keeps the view
    addresses: Mapping[str, str] = dataclasses.field(default_factory=dict)  # of members, by id


def boot_id() -> str:
    """What the kernel is called since the machine started; empty if it does not say."""
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def new_member_id() -> str:
    """An id that no other member has."""
    return os.urandom(8).hex()


def why_renewed(found: Remembered, boot: str, place: int, damage: str) -> str:
    """Why a member needs a new id at its start; empty if it keeps its own.

    It keeps it if it was closed, or if the machine has not started again since: then the kernel
    still has what was written. It also keeps it if it acknowledged only what was synced. `damage`
    is what the journal or the notes have lost, whatever the reason.
    """
    if damage:
        return f"what it has acknowledged is damaged: {damage}"
    if found.place != place:
        return "its directory is a copy, and the original may still be a member"
    if found.closed:
        return ""
    if boot and boot == found.boot:
        return ""
    if found.sync == SYNCED:
        return ""
    return (
        f"the machine has started again since, and with journal.sync = {found.sync} the last"
        " messages may not have been on the disk"
    )


class Membership:
    """A `MemberMemory` on the disk. For one thread.

    Methods that change something raise `OSError` if it cannot be written; then nothing changed.
    """

    def __init__(self, store_dir: str, remembered: Remembered) -> None:
        self.folder = os.path.join(store_dir, FOLDER)
        self._file = os.path.join(self.folder, FILE)
        self._now = remembered

    @classmethod
    def begin(cls, store_dir: str, cluster: str, sync: str = SYNCED) -> Self:
        """Make a new member, or a new file if the old one is damaged. Raises `OSError`."""
        folder = os.path.join(os.path.abspath(store_dir), FOLDER)
        make_folder(folder)
        place = os.stat(folder).st_ino
        made = cls(
            os.path.abspath(store_dir),
            Remembered(cluster, new_member_id(), sync=sync, boot=boot_id(), place=place),
        )
        made._change()
        return made

    @property
    def member(self) -> str:
        return self._now.member

    @property
    def epoch(self) -> int:
        return self._now.epoch

    @property
    def revision(self) -> int:
        return self._now.revision

    @property
    def view(self) -> View | None:
        return self._now.view

    @property
    def stream(self) -> int:
        return self._now.stream

    @property
    def remembered(self) -> Remembered:
        """All of it."""
        return self._now

    def learn(self, epoch: int, revision: int, view: View) -> None:
        """Remember these. They are on the disk when this returns."""
        if (epoch, revision, view) != (self._now.epoch, self._now.revision, self._now.view):
            self._change(epoch=epoch, revision=revision, view=view)

    def follow(self, stream: int) -> None:
        """From now on the journal is that of this stream. It is on the disk when this returns."""
        if stream != self._now.stream:
            self._change(stream=stream)

    def learn_engine(self, engine: str) -> None:
        """Remember which engine keeps the view."""
        if engine != self._now.engine:
            self._change(engine=engine)

    def learn_addresses(self, addresses: Mapping[str, str]) -> None:
        """Remember where other members listen, for a start without the engine."""
        view = self._now.view
        wanted = {*addresses, *(view.members if view is not None else ())}
        known = {**self._now.addresses, **addresses}
        known = {member: place for member, place in known.items() if member in wanted}
        if known != self._now.addresses:
            self._change(addresses=known)

    def start_run(self, run: int) -> None:
        """This process has that number, which the engine gave."""
        self._change(run=run)

    def put_reserve(self, run: int) -> None:
        """Keep a number for a start without the engine."""
        self._change(reserve=run)

    def take_reserve(self) -> int:
        """The number kept for this process, which is never returned again; 0 if there is none."""
        run = self._now.reserve
        if run:
            self._change(reserve=0, run=run)
        return run

    def is_outdated(self, newest: int) -> bool:
        """Whether a later process has used this member's store, and this one is a copy from before.

        `newest` is the newest number that the engine has registered for the member.
        """
        return newest > self._now.registered and newest != self._now.claimed

    def claim(self, run: int, newest: int) -> None:
        """The engine is to register this number, after `newest`, which is this store's."""
        self._change(claimed=run, registered=newest)

    def note_registered(self, run: int) -> None:
        """The engine has done so."""
        self._change(registered=run)

    @property
    def newest_run(self) -> int:
        """The highest number of a process that this member knows of."""
        view = self._now.view
        of_view = view.run if view is not None else 0
        return max(self._now.run, self._now.reserve, self._now.claimed, of_view)

    def open(self, sync: str) -> None:
        """From now on the member acknowledges, with this `journal.sync`."""
        weakest = sync if self._now.closed or self._now.sync == SYNCED else self._now.sync
        self._change(closed=False, boot=boot_id(), sync=weakest)

    def renew(self) -> None:
        """Draw a new id, which has acknowledged nothing. What is known of views stays."""
        place = os.stat(self.folder).st_ino
        self._change(member=new_member_id(), place=place, closed=True, claimed=0, registered=0)

    def forget(self) -> None:
        """Be nobody from the next start on, where the disk does not take a new id."""
        os.unlink(self._file)

    def close(self) -> None:
        """Everything that was acknowledged is on the disk, and nothing more will be."""
        self._change(closed=True)

    def _change(self, **changes: Any) -> None:
        changed = dataclasses.replace(self._now, **changes)
        replace_or_overwrite(self._file, _encode(changed))
        self._now = changed


def read_member(store_dir: str) -> Remembered | None:
    """The file of a store; None if there is none or it is damaged. StoreError: it is newer."""
    file = os.path.join(store_dir, FOLDER, FILE)
    try:
        with open(file, "rb") as opened:
            fields = json.loads(opened.read())
        if fields.pop("crc") != _checksum(fields):
            return None
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if fields.pop("format") != FORMAT:
        raise StoreError(f"{file} was written by a newer Seriatim; start the member with that")
    try:
        view = fields.pop("view")
        return Remembered(view=None if view is None else view_from_json(view.encode()), **fields)
    except (BadView, TypeError) as error:
        raise StoreError(f"{file} was written by a newer Seriatim: {error}") from error


def open_membership(
    store_dir: str, cluster: str, sync: str, damage: str = ""
) -> tuple[Membership, str]:
    """The member that this store is, open; and why it is not the one that it was, or nothing.

    Raises `StoreError` if the store belongs to another cluster, and `OSError`.
    """
    path = os.path.abspath(store_dir)
    found = read_member(path)
    folder = os.path.join(path, FOLDER)
    if found is None:
        was_there = os.path.exists(os.path.join(folder, FILE))
        made = Membership.begin(path, cluster)
        made.open(sync)
        return made, f"{FOLDER}/{FILE} is damaged" if was_there else ""
    if found.cluster != cluster:
        raise StoreError(
            f"{path}: this store belongs to the cluster {found.cluster}, not to {cluster}; give"
            f" --cluster {found.cluster}, or another directory"
        )
    membership = Membership(path, found)
    why = why_renewed(found, boot_id(), os.stat(folder).st_ino, damage)
    if why:
        membership.renew()
    membership.open(sync)
    return membership, why


def _encode(remembered: Remembered) -> bytes:
    fields: dict[str, Any] = {"format": FORMAT, **dataclasses.asdict(remembered)}
    view = remembered.view
    fields["view"] = None if view is None else view.to_json().decode()
    fields["crc"] = _checksum(fields)
    return json.dumps(fields).encode() + b"\n"


def _checksum(fields: dict[str, Any]) -> int:
    return crc32c(json.dumps(fields, sort_keys=True).encode())
