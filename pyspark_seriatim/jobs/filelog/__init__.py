"""The list of a table's files, changed one version at a time; its versions, and the file system."""

from pyspark_seriatim.jobs.filelog.filelog import DataFile, FileLog, FileLogError, WriterConflict

__all__ = ["DataFile", "FileLog", "FileLogError", "WriterConflict"]
