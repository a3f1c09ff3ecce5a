"""A table in SQLite that follows the stream: each order is in it once, whatever is killed.

python to_sqlite.py nats://localhost:4222 orders.> orders.db
"""

import argparse
import sqlite3

import seriatim

TABLES = """
    CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, subject TEXT, payload BLOB);
    CREATE TABLE IF NOT EXISTS totals (subject TEXT PRIMARY KEY, orders INTEGER, bytes INTEGER);
    CREATE TABLE IF NOT EXISTS place
        (id INTEGER PRIMARY KEY CHECK (id = 1), journal TEXT, number INTEGER, time_ns INTEGER);
"""
ADD = """
    INSERT INTO totals VALUES (?, 1, ?) ON CONFLICT (subject)
    DO UPDATE SET orders = orders + 1, bytes = bytes + excluded.bytes
"""


def place_of(table: sqlite3.Connection) -> seriatim.Position | None:
    """Return how far the tables are."""
    found = table.execute("SELECT journal, number, time_ns FROM place").fetchone()
    return seriatim.Position(*found) if found else None


def follow(stream: seriatim.BlockingClient, subject: str, table: sqlite3.Connection) -> None:
    """Write what comes, without end: the orders and the place in one transaction, or neither."""
    reader = stream.read(subject, start=place_of(table) or 1)
    for messages in reader.batches():
        rows = [(one.number, one.subject, one.payload) for one in messages]
        with table:
            table.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
            table.executemany(ADD, [(one.subject, len(one.payload)) for one in messages])
            table.execute("REPLACE INTO place VALUES (1, ?, ?, ?)", reader.position)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write orders to a table in SQLite.")
    parser.add_argument("server", help="nats://host:port")
    parser.add_argument("subject", help="of the orders, such as orders.>")
    parser.add_argument("file", help="of the table")
    arguments = parser.parse_args()
    table = sqlite3.connect(arguments.file)
    table.executescript(TABLES)
    with seriatim.connect(arguments.server, wait=True) as stream:
        follow(stream, arguments.subject, table)


if __name__ == "__main__":
    main()
