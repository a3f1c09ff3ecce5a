"""Finds the end of a query's batch in the offset log that Spark writes before the batch runs.

<checkpoint>/offsets/7:   v1
                          {"batchWatermarkMs":0,...}
                          {"journal":"7f3c...","sequence":5001}

In v2 (`spark.sql.streaming.offsetLog.formatVersion`) the last line begins with `0:`, the source's
name. The format is internal to Spark, without guarantees: unknown ones are refused.
"""

import json
from typing import Final

from pyspark_seriatim.installed import version
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog.files import Files

FORMATS: Final = {"v1": "", "v2": "0:"}  # what precedes the offset of the only source


class UnknownOffsetLog(JobError):
    """Spark writes its checkpoint in an unknown format."""


def ending(checkpoint: Files, batch: int, journal: str) -> int:
    """The number after the last one of a batch. Raises `JobError`, also for another journal."""
    path = f"offsets/{batch}"
    data = checkpoint.read(path)
    lines = data.decode(errors="replace").splitlines() if data is not None else []
    if lines and lines[0] not in FORMATS:
        raise UnknownOffsetLog(
            f"{checkpoint.uri(path)} has the format {lines[0][:20]!r}, which PySpark {version()}"
            f" may write and Seriatim does not know; it knows {', '.join(FORMATS)}. Install a newer"
            " Seriatim, or an older PySpark, and give another --checkpoint"
        )
    try:
        offset = json.loads(lines[2].removeprefix(FORMATS[lines[0]]))
        found, sequence = str(offset["journal"]), int(offset["sequence"])
    except (IndexError, KeyError, TypeError, ValueError):
        raise JobError(
            f"{checkpoint.uri(path)} is missing, or not the offset of one Seriatim stream: give"
            " a checkpoint that this job has made"
        ) from None
    if found != journal:
        raise JobError(
            f"the checkpoint {checkpoint.root} belongs to the journal {found}, but the archive to"
            f" {journal}: give another --checkpoint"
        )
    return sequence
