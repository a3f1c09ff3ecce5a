"""A consumer like an application's: `python -m tests.cardinal.consuming URL FILE THRESHOLD`.

Each step goes into an SQLite file with its token, in one transaction; then a line is printed with
the new head. Killed at any moment and restarted, it continues from the file. It fails if a block is
applied twice, or removed when it is not the last, or not on its parent.
"""

import asyncio
import sqlite3
import sys

from cardinal.block import Block
from cardinal.follower import ChainFollower, Step
from cardinal.transport.consumer import Consumer

TABLES = """
create table if not exists state (key text primary key, value blob) without rowid;
create table if not exists chain (place integer primary key, hash blob unique, number integer);
create table if not exists undo (place integer, key text, value blob);
create table if not exists applied (hash blob primary key, times integer) without rowid;
create table if not exists token (only integer primary key check (only = 1), text text);
"""


class Application:
    """The state, the chain that led to it, and how to take a block back."""

    def __init__(self, file: str) -> None:
        self.db = sqlite3.connect(file, isolation_level=None)
        self.db.execute("pragma synchronous = off")  # it is killed, the machine is not
        self.db.executescript(TABLES)

    def head(self) -> tuple[int, bytes, int] | None:
        """Place, hash and number of the last block."""
        found = self.db.execute("select * from chain order by place desc limit 1").fetchone()
        return None if found is None else (found[0], found[1], found[2])

    def token(self) -> str:
        found = self.db.execute("select text from token").fetchone()
        return found[0] if found else ""

    def apply(self, step: Step) -> None:
        self.db.execute("begin")
        for block in reversed(step.update.removed):
            assert self._take_back() == block.hash
        while step.update.beyond and (head := self.head()) and head[1] != step.update.ancestor:
            self._take_back()
        for block in step.update.added:
            self._add(block)
        self.db.execute("insert or replace into token values (1, ?)", (step.token,))
        self.db.execute("commit")

    def _add(self, block: Block) -> None:
        head = self.head()
        assert head is None or head[1] == block.parent, "not on its parent"
        place = 1 if head is None else head[0] + 1
        self.db.execute("insert into chain values (?, ?, ?)", (place, block.hash, block.number))
        for key in {*block.deletes, *block.updates}:
            old = self.db.execute("select value from state where key = ?", (key,)).fetchone()
            self.db.execute("insert into undo values (?, ?, ?)", (place, key, old and old[0]))
        self.db.execute(
            "insert into applied values (?, 1) on conflict do update set times = times + 1",
            (block.hash,),
        )
        self.db.executemany("delete from state where key = ?", [(key,) for key in block.deletes])
        self.db.executemany("insert or replace into state values (?, ?)", block.updates.items())

    def _take_back(self) -> bytes:
        head = self.head()
        assert head is not None
        place, hash, _ = head
        undo = self.db.execute("select key, value from undo where place = ?", (place,)).fetchall()
        for key, value in undo:
            self.db.execute("delete from state where key = ?", (key,))
            if value is not None:
                self.db.execute("insert into state values (?, ?)", (key, value))
        self.db.execute("delete from undo where place = ?", (place,))
        self.db.execute("delete from chain where place = ?", (place,))
        return hash


async def main(url: str, file: str, threshold: int) -> None:
    """Consume for ever."""
    application = Application(file)
    head = application.head()
    follower = ChainFollower(
        start=head and head[1], number=None if head is None else head[2], threshold=threshold
    )
    consumer = Consumer("chain", url, follower=follower, token=application.token())
    async for event in consumer:
        if isinstance(event, Step):
            application.apply(event)
            consumer.done(event)
            print(event.update.added[-1].hash.hex(), flush=True)
        else:
            print(f"# {event}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
