"""The ordered stream in Spark: `spark.read.format("seriatim")`, and so for streams and sinks.

Spark imports every package called `pyspark_...` to look for a data source, and finds none at all
where one of them raises; so nothing is imported here before it is asked for.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        try:
            from pyspark_seriatim.source import SeriatimDataSource
        except ImportError as error:  # pyspark of old, no pyarrow: then there is no such source
            raise AttributeError(f"{name} needs 'seriatim[spark]': {error}") from error
        return SeriatimDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
