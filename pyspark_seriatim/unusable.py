"""The data source `seriatim` where it cannot be used: every use of it says why.

Spark overlooks a package that has no source to offer, and says that there is no such source. So
this one stands in for it, and needs nothing but what PySpark has had since 4.0.
"""

from typing import NoReturn

from pyspark.sql.datasource import DataSource


class UnusableDataSource(DataSource):
    """What Spark finds under the name `seriatim` where something is missing that it needs."""

    def __init__(self, options: dict[str, str]) -> None:
        """Raises what importing the source raises."""
        _import()

    @classmethod
    def name(cls) -> str:
        return "seriatim"


def _import() -> NoReturn:
    import pyspark_seriatim.source as source

    raise ImportError(f"{source.__name__} could not be imported when Spark looked for it")
