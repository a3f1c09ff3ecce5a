"""An archive as a Delta table: the same Parquet files, listed in a `_delta_log` by delta-rs.

The file log is authoritative. After each of its versions, the difference is committed to the Delta
log in one transaction, with the version recorded for the application "seriatim". If there is a
crash between the two, the next run commits it; nothing is listed twice.

The archive compacts and vacuums the files: do not run Delta's own OPTIMIZE on them.
"""

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa

from pyspark_seriatim.jobs.archive.parquet import schema_of
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog import versions
from pyspark_seriatim.jobs.filelog.filelog import DataFile, FileLog

if TYPE_CHECKING:
    from deltalake import DeltaTable

APPLICATION: Final = "seriatim"


class DeltaMirror:
    """The Delta table of one root. Raises `JobError` if delta-rs is not installed."""

    def __init__(self, root: str, columns: list[str], partition: list[str]) -> None:
        try:
            from deltalake import DeltaTable
        except ImportError as error:
            raise JobError(
                f"--format delta needs deltalake: pip install 'deltalake>=1.0' ({error})"
            ) from None
        self._partition = partition
        kinds = {"date": pa.date32(), "token": pa.string()}
        self._schema = schema_of(columns)
        for name in partition:
            self._schema = self._schema.append(pa.field(name, kinds[name]))
        self._table: DeltaTable = DeltaTable.create(
            root, self._schema, mode="ignore", partition_by=partition
        )

    def sync(self, log: FileLog) -> None:
        """Copy the log's list of files, in one transaction."""
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction, RemoveAction

        table = self._table
        table.update_incremental()
        if (table.transaction_version(APPLICATION) or 0) >= log.version:
            return
        there, here = _listed(table), log.state.files
        added = [file for path, file in here.items() if path not in there]
        removed = {path: raw for path, raw in there.items() if path not in here}
        # Merged files add no new rows: readers of the change feed can skip them.
        rows = sum(file.rows for file in added) - sum(
            raw["num_records"] for raw in removed.values()
        )
        change, now = rows != 0 or not removed, versions.now()
        actions: list[Any] = [
            AddAction(file.path, file.bytes, self._values(file), now, change, _statistics(file))
            for file in added
        ]
        actions += [
            RemoveAction(path, change, now, raw["size_bytes"], _texts(raw["partition"]))
            for path, raw in removed.items()
        ]
        if not actions:
            return
        table.create_write_transaction(
            actions,
            "append",
            self._schema,
            self._partition,
            commit_properties=CommitProperties(
                custom_metadata={"seriatim": json.dumps(log.facts)},
                app_transactions=[Transaction(APPLICATION, log.version)],
            ),
        )

    def _values(self, file: DataFile) -> dict[str, str | None]:
        return {name: file.tags[name] for name in self._partition}


def _listed(table: "DeltaTable") -> dict[str, dict[str, Any]]:
    """The files that the table lists, by path."""
    rows = pa.table(table.get_add_actions()).to_pylist()
    return {unquote(row["path"]): row for row in rows}


def _texts(values: dict[str, Any]) -> dict[str, str | None]:
    """The values of a partition in the form of the Delta log."""
    return {name: None if value is None else str(value) for name, value in values.items()}


def _statistics(file: DataFile) -> str:
    """Statistics that readers use before they open a file."""
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": {"sequence": file.first},
            "maxValues": {"sequence": file.last},
            "nullCount": {"sequence": 0},
        }
    )
