"""The list of a table's files, changed atomically in versions, and the file system under it."""

from pyspark_seriatim.jobs.filelog.filelog import DataFile, FileLog, FileLogError, WriterConflict

__all__ = ["DataFile", "FileLog", "FileLogError", "WriterConflict"]
