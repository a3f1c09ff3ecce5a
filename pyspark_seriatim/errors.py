"""What can go wrong between Spark and a broker; each error is one message, and can be pickled.

    OptionError      an option of the reader or the writer has a value that cannot be
    BrokerError      the broker refused, or said what it should not
      ConnectionLost no broker, or it went away: asked again within fetchOffset.numRetries
    DataLost         numbers that were asked for are not there any more (failOnDataLoss)
    PySparkNotUsable the PySpark that is installed is too old, or there is none
    RowError         a row that cannot be published
    ColumnError      a column that cannot be written

Errors cross from Python workers to the driver as text; no message holds a password or a token.
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
    """An option's value cannot be; the message names the option, and what it may be."""


class DataLost(RuntimeError):
    """Numbers that were asked for are gone, or the journal is another one."""


class PySparkNotUsable(ImportError):
    """PySpark is missing or too old; the message names it, and what is needed."""


class RowError(ValueError):
    """A row that cannot be published; the message names its subject, and why."""


class ColumnError(ValueError):
    """A column to be written that is missing, or of a type that cannot be written."""
