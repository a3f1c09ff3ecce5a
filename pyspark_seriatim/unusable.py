"""Stands in for the data source `seriatim` if it cannot be used: every use of it says why.

Spark ignores a package without a source, and reports that there is no such source. This stand-in
needs only the API of PySpark 4.0.
"""

from typing import NoReturn

from pyspark.sql.datasource import DataSource


class UnusableDataSource(DataSource):
    """The class that Spark finds under the name `seriatim` if something it needs is missing."""

    def __init__(self, options: dict[str, str]) -> None:
        """Raises the error of importing the source."""
        _import()

    @classmethod
    def name(cls) -> str:
        return "seriatim"


def _import() -> NoReturn:
    import pyspark_seriatim.source as source

    raise ImportError(f"{source.__name__} could not be imported when Spark looked for it")
