"""An archive as an Iceberg table: the same Parquet files, in a catalog that pyiceberg keeps.

    <root>/_seriatim/iceberg.db            an SQLite catalog with the table `seriatim.messages`
    <root>/_seriatim/iceberg/metadata/     what Iceberg writes, where readers of <root> ignore it

The file log is authoritative. After each of its versions, the difference is committed in one
snapshot, with the version in the property `seriatim.version` of snapshot and table. If there is a
crash between the two, the next run commits it; nothing is listed twice.

The table is partitioned by the day of `timestamp`; the first token appears only in folder names. A
root that is not local needs another catalog (--catalog, with pyiceberg's own settings).
"""

import json
import logging
from typing import TYPE_CHECKING, Any, Final

from pyspark_seriatim.jobs.archive.parquet import schema_of
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog.filelog import FileLog
from pyspark_seriatim.jobs.filelog.files import Files
from pyspark_seriatim.jobs.filelog.versions import FOLDER

if TYPE_CHECKING:
    from pyiceberg.table import Table

NAMESPACE: Final = "seriatim"
TABLE: Final = f"{NAMESPACE}.messages"
VERSION: Final = "seriatim.version"


class IcebergMirror:
    """The Iceberg table of one root. Raises `JobError` if pyiceberg is not installed."""

    def __init__(self, root: str, columns: list[str], catalog: str = "") -> None:
        try:
            from pyiceberg.catalog import load_catalog
            from pyiceberg.transforms import DayTransform
        except ImportError as error:
            raise JobError(
                "--format iceberg needs pyiceberg and SQLAlchemy: pip install"
                " 'pyiceberg[sql-sqlite]>=0.9'"
                f" ({error})"
            ) from None
        logging.getLogger("pyiceberg.io.pyarrow").addFilter(_has_something_to_say)
        self._base = root if "://" in root else f"file://{root}"
        settings: dict[str, Any] = {}
        if not catalog:
            if "://" in root:
                raise JobError(f"--format iceberg: {root} is not local: give --catalog NAME")
            Files(root).make(FOLDER)
            settings = {"type": "sql", "uri": f"sqlite:///{root}/{FOLDER}/iceberg.db"}
        found = load_catalog(catalog or NAMESPACE, **settings)
        found.create_namespace_if_not_exists(NAMESPACE)
        location = f"{self._base}/{FOLDER}/iceberg"
        self._table: Table = found.create_table_if_not_exists(
            TABLE, schema_of(columns), location=location
        )
        # otherwise the table's files would be removed from it
        if self._table.location().rstrip("/") != location:
            raise JobError(
                f"--catalog {catalog}: its table {TABLE} belongs to another archive, in"
                f" {self._table.location()}; give each archive a catalog of its own"
            )
        if not self._table.spec().fields:
            with self._table.update_spec() as spec:
                spec.add_field("timestamp", DayTransform(), "day")

    def sync(self, log: FileLog) -> None:
        """Copy the log's list of files, in one snapshot."""
        table = self._table.refresh()
        if int(table.properties.get(VERSION, "0")) >= log.version:
            return
        there = {task.file.file_path: task.file for task in table.scan().plan_files()}
        here = {f"{self._base}/{path}" for path in log.state.files}
        added, removed = sorted(here - there.keys()), sorted(there.keys() - here)
        properties = {VERSION: str(log.version), "seriatim.facts": json.dumps(log.facts)}
        if not added and not removed:
            return
        with table.transaction() as transaction:
            transaction.set_properties(properties)
            if not removed:
                transaction.add_files(added, properties)
                return
            with transaction.update_snapshot(properties).overwrite() as snapshot:
                for path in removed:
                    snapshot.delete_data_file(there[path])
                for file in data_files(table, added):
                    snapshot.append_data_file(file)


def _has_something_to_say(record: logging.LogRecord) -> bool:
    """Drop the warnings that payloads have no statistics, which is intended."""
    return "statistics missing" not in str(record.msg)


def data_files(table: "Table", paths: list[str]) -> list[Any]:
    """Iceberg's metadata of Parquet files, read from their footers."""
    from pyiceberg.io.pyarrow import parquet_file_to_data_file

    return [parquet_file_to_data_file(table.io, table.metadata, path) for path in paths]
