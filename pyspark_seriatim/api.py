"""The names of PySpark's Data Source API on which the source and the sink are built.

They came with PySpark 4.0, 4.1 and 4.2. This is the only place that detects a PySpark without them:
importing this module then raises `PySparkNotUsable`, with a message.
"""

from pyspark_seriatim.errors import PySparkNotUsable
from pyspark_seriatim.installed import trouble

if trouble():
    raise PySparkNotUsable(trouble())
try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        InputPartition,
        IsNotNull,
        LessThan,
        LessThanOrEqual,
        WriterCommitMessage,
    )
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError as error:
    raise PySparkNotUsable(f"this PySpark cannot be used: {error}") from error

__all__ = [
    "DataSource",
    "DataSourceArrowWriter",
    "DataSourceReader",
    "DataSourceStreamArrowWriter",
    "DataSourceStreamReader",
    "EqualTo",
    "Filter",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
    "InputPartition",
    "IsNotNull",
    "LessThan",
    "LessThanOrEqual",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "WriterCommitMessage",
]
