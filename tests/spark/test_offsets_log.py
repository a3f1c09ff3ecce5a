"""Where a batch ends, in a checkpoint that the installed PySpark has written."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_seriatim.client import Client
from pyspark_seriatim.jobs.archive.archiving import FORMATS, ending
from pyspark_seriatim.jobs.filelog.files import Files
from pyspark_seriatim.options import Options
from tests.support.processes import SeriatimServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "spark.sql.streaming.offsetLog.formatVersion"


@pytest.mark.parametrize("format", FORMATS)
def test_given_a_query_of_several_batches_then_its_checkpoint_says_where_each_of_them_ends(
    spark: "SparkSession",
    broker: SeriatimServer,
    publish: Callable[..., None],
    tmp_path: Path,
    format: str,
) -> None:
    publish([b"%d" % n for n in range(250)])
    server = f"127.0.0.1:{broker.port}"
    spark.conf.set(FORMAT, format.removeprefix("v"))
    try:
        query = (
            spark.readStream.format("seriatim")
            .option("servers", server)
            .option("startingOffsets", 1)
            .option("maxOffsetsPerTrigger", 100)
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    finally:
        spark.conf.unset(FORMAT)
    assert (tmp_path / "checkpoint/offsets/0").read_text().startswith(format)
    journal = Client.shared(Options.parse({"servers": server}, "batch")).info().journal
    place = Files(str(tmp_path / "checkpoint"))
    assert [ending(place, batch, journal) for batch in range(3)] == [101, 201, 251]
