"""The ordered stream in Spark: `spark.read.format("seriatim")`, and so for streams and sinks.

Spark imports every package called `pyspark_...` to look for a data source, and finds none at all
where one of them raises; so nothing is imported here before it is asked for.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from pyspark_seriatim.source import SeriatimDataSource
    except ImportError:  # an old PySpark, no pyarrow
        try:
            from pyspark_seriatim.unusable import UnusableDataSource
        except ImportError:  # no PySpark, or one that looks for no sources: nothing is spoilt
            pass
        else:
            return UnusableDataSource
        raise
    return SeriatimDataSource
