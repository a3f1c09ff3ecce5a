"""The ordered stream in Spark: `spark.read.format("seriatim")`; likewise streams and sinks.

Spark imports every package called `pyspark_...` to look for data sources, and finds none at all if
one of them raises. So every name is imported here only when it is first used.
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
        except ImportError:  # no PySpark, or one that does not look for sources: harmless
            pass
        else:
            return UnusableDataSource
        raise
    return SeriatimDataSource
