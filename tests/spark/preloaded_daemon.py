"""Spark's daemon of Python workers, which has imported what each of them needs before it forks.

Spark's own has imported only PySpark; pandas, pyarrow and our source then take a second of each
worker. tests/spark/test_submit.py runs with Spark's own.
"""

import pandas  # noqa: F401
import pyarrow.compute
import pyarrow.parquet  # noqa: F401
import pyspark.sql.conversion
import pyspark.sql.pandas.serializers
import pyspark.sql.pandas.types
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import pyspark_seriatim
import pyspark_seriatim.reading
import pyspark_seriatim.sink
import pyspark_seriatim.source
import pyspark_seriatim.stream  # noqa: F401

if __name__ == "__main__":
    manager()
