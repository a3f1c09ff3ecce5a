"""The errors between Spark and a broker; each has a one-line message, and can be pickled.

    OptionError      an option of the reader or the writer has an invalid value
    BrokerError      the broker refused, or sent something invalid
      ConnectionLost no broker, or it went away: retried within fetchOffset.numRetries
    DataLost         requested numbers no longer exist (failOnDataLoss)
    PySparkNotUsable the installed PySpark is too old, or there is none
    RowError         a row that cannot be published
    ColumnError      a column that cannot be written

Errors cross from Python workers to the driver as text. None contains a password or a token.
"""

from seriatim.client.errors import BrokerError, ConnectionLost

__all__ = [
    "BrokerError",
    "ColumnError",
    "ConnectionLost",
    "DataLost",
    "OptionError",
    "PySparkNotUsable",
    "RowError",
]


class OptionError(ValueError):
    """An option has an invalid value; the message names the option and what is allowed."""


class DataLost(RuntimeError):
    """The loss of requested numbers: deleted, or of another journal."""


class PySparkNotUsable(ImportError):
    """PySpark is missing or too old; the message says which version is needed."""


class RowError(ValueError):
    """A row that cannot be published; the message names its subject, and the reason."""


class ColumnError(ValueError):
    """A column to be written is missing, or has a type that cannot be written."""
