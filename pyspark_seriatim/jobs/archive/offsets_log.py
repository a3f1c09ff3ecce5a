"""Where a batch of a query ends: what Spark wrote into the query's checkpoint before the batch ran.

<checkpoint>/offsets/7:   v1
                          {"batchWatermarkMs":0,...}
                          {"journal":"7f3c...","sequence":5001}

In v2 (`spark.sql.streaming.offsetLog.formatVersion`) the last line begins with `0:`, the source's
name. The format is Spark's own, and it makes no promise: one that is not known here is refused.
"""

import json
from typing import Final

from pyspark_seriatim.installed import version
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog.files import Files

FORMATS: Final = {"v1": "", "v2": "0:"}  # what is before the offset of the only source


class UnknownOffsetLog(JobError):
    """Spark writes its checkpoints in a way that is not known here."""


def ending(checkpoint: Files, batch: int, journal: str) -> int:
    """The number behind the last one of a batch. Raises `JobError`, for another journal too."""
    path = f"offsets/{batch}"
    data = checkpoint.read(path)
    lines = data.decode(errors="replace").splitlines() if data is not None else []
    if lines and lines[0] not in FORMATS:
        raise UnknownOffsetLog(
            f"{checkpoint.uri(path)} is of the format {lines[0][:20]!r}, which PySpark {version()}"
            f" may write and Seriatim does not know; it knows {', '.join(FORMATS)}. Install a newer"
            " Seriatim, or an older PySpark, and give another --checkpoint"
        )
    try:
        offset = json.loads(lines[2].removeprefix(FORMATS[lines[0]]))
        found, sequence = str(offset["journal"]), int(offset["sequence"])
    except (IndexError, KeyError, TypeError, ValueError):
        raise JobError(
            f"{checkpoint.uri(path)} is missing, or not the offset of one stream of Seriatim: give"
            " a checkpoint that this job has made"
        ) from None
    if found != journal:
        raise JobError(
            f"the checkpoint {checkpoint.root} is of the journal {found}, and the archive of"
            f" {journal}: give another --checkpoint"
        )
    return sequence
