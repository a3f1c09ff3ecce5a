"""The file in which a member remembers itself: `cluster/member.json` in its store's directory.

    {"format":1,"cluster":"orders","member":"3f0c...","epoch":7,"revision":123,"view":{...},
     "reserve":42,"run":41,"closed":false,"boot":"5d1c...","sync":"interval","stream":1,"place":131074,
     "engine":"0482...","addresses":{"3f0c...":"10.0.0.1:6222"},"crc":123}

The file has a checksum, and is replaced as a whole and synced at each change, which are few.

1. An epoch is on the disk before anything is sent in it: `learn` returns only then.
2. A member that may have lost what it acknowledged gets a new id: `why_renewed` decides at each
start, and `renew` draws one after a failed sync. The old id stays in the view, like that of any
dead member.
3. A restored store is an old copy: it lacks what the member has acknowledged since. So each process
is registered in the engine, under a number above all earlier ones. A store that does not know
the newest one is such a copy (`is_outdated`), and gets a new id, too. The number is on the disk
before the engine gets it (`claimed`), and recorded as `registered` afterwards.
4. A number for a process is used once: `take_reserve` forgets it on the disk before it returns it.
"""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from broker.storage.member_store import FILE, FOLDER
from sequencer.journal.disk import make_folder, replace_or_overwrite
from sequencer.journal.errors import StoreError
from sequencer.journal.identity import checked_json, json_with_checksum
from sequencer.replica.view import BadView, View, view_from_json

FORMAT: Final = 1
BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
SYNCED: Final = "always"  # journal.sync of a member that acknowledges only what is synced


@dataclass(frozen=True, slots=True)
class Remembered:
    """The content of the file."""

    cluster: str
    member: str  # the id, 16 hex digits
    epoch: int = 0  # the highest known
    revision: int = 0
    view: View | None = None
    reserve: int = 0  # a number for a process that starts without the engine; 0: none
    run: int = 0  # the newest process of this member
    claimed: int = 0  # a number that the engine was to register
    registered: int = 0  # the newest that it has registered, as far as the store knows
    closed: bool = True  # everything that it acknowledged is on the disk
    boot: str = ""  # of the machine, when it was open
    sync: str = SYNCED  # the weakest of journal.sync while this id has acknowledged anything
    stream: int = 0  # of the view whose log the journal is; `cluster recover` begins another one
    place: int = 0  # the folder's inode, which differs for a copy
    engine: str = ""  # the id of the engine that keeps the view
    addresses: Mapping[str, str] = dataclasses.field(default_factory=dict)  # of members, by id


def boot_id() -> str:
    """Return the id of the machine's current boot; empty if the kernel gives none."""
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def new_member_id() -> str:
    """Draw an id that no other member has."""
    return os.urandom(8).hex()


def why_renewed(found: Remembered, boot: str, place: int, damage: str) -> str:
    """Return why a member needs a new id at its start; empty if it keeps its own.

    It keeps its id if it was closed, or if the machine has not rebooted since: then the kernel
    still has all writes. It also keeps it if it acknowledged only synced messages. `damage` says
    what the journal or the notes have lost, for whatever reason.
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
    def create(cls, store_dir: str, cluster: str, sync: str = SYNCED) -> Self:
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
        """The whole content of the file."""
        return self._now

    def learn(self, epoch: int, revision: int, view: View) -> None:
        """Remember these. They are on the disk when this returns."""
        if (epoch, revision, view) != (self._now.epoch, self._now.revision, self._now.view):
            self._change(epoch=epoch, revision=revision, view=view)

    def follow(self, stream: int) -> None:
        """Record that the journal is now that of this stream; on the disk when this returns."""
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
        """Record the number that the engine gave to this process."""
        self._change(run=run)

    def put_reserve(self, run: int) -> None:
        """Keep a number for a start without the engine."""
        self._change(reserve=run)

    def take_reserve(self) -> int:
        """Return the number kept for this process, and never again; 0 if there is none."""
        run = self._now.reserve
        if run:
            self._change(reserve=0, run=run)
        return run

    def is_outdated(self, newest: int) -> bool:
        """True if this store is an old copy: a later process has used the member's store since.

        `newest` is the newest number that the engine has registered for the member.
        """
        return newest > self._now.registered and newest != self._now.claimed

    def claim(self, run: int, newest: int) -> None:
        """Record that the engine is to register this number, after this store's `newest`."""
        self._change(claimed=run, registered=newest)

    def note_registered(self, run: int) -> None:
        """Record that the engine has registered this number."""
        self._change(registered=run)

    @property
    def newest_run(self) -> int:
        """The highest process number that this member knows."""
        view = self._now.view
        of_view = view.run if view is not None else 0
        return max(self._now.run, self._now.reserve, self._now.claimed, of_view)

    def open(self, sync: str) -> None:
        """Record that the member acknowledges from now on, with this `journal.sync`."""
        weakest = sync if self._now.closed or self._now.sync == SYNCED else self._now.sync
        self._change(closed=False, boot=boot_id(), sync=weakest)

    def renew(self) -> None:
        """Draw a new id, which has acknowledged nothing. The known views stay."""
        place = os.stat(self.folder).st_ino
        self._change(member=new_member_id(), place=place, closed=True, claimed=0, registered=0)

    def delete_file(self) -> None:
        """Delete the file, if the disk does not take a new id; the next start draws one."""
        os.unlink(self._file)

    def close(self) -> None:
        """Record that everything acknowledged is on the disk, and nothing more will be."""
        self._change(closed=True)

    def _change(self, **changes: Any) -> None:
        changed = dataclasses.replace(self._now, **changes)
        replace_or_overwrite(self._file, _encode(changed))
        self._now = changed


def read_member(store_dir: str) -> Remembered | None:
    """Read a store's file; None if there is none or it is damaged. StoreError: it is newer."""
    file = os.path.join(store_dir, FOLDER, FILE)
    try:
        with open(file, "rb") as opened:
            fields = checked_json(opened.read())
    except FileNotFoundError:
        return None
    if fields is None:
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
    """Open the member of this store; return it, and why it has a new id (empty: it has not).

    Raises `StoreError` if the store belongs to another cluster, and `OSError`.
    """
    path = os.path.abspath(store_dir)
    found = read_member(path)
    folder = os.path.join(path, FOLDER)
    if found is None:
        was_there = os.path.exists(os.path.join(folder, FILE))
        made = Membership.create(path, cluster)
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
    return json_with_checksum(fields)
