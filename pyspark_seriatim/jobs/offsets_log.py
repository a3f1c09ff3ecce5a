"""Where a batch of a query ends: what Spark wrote into the query's checkpoint before the batch ran.

<checkpoint>/offsets/7:   v1
                          {"batchWatermarkMs":0,...}
                          {"journal":"7f3c...","sequence":5001}
"""

import json

from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.files import Files


def ending(checkpoint: Files, batch: int, journal: str) -> int:
    """The number behind the last one of a batch. Raises `JobError`, for another journal too."""
    path = f"offsets/{batch}"
    data = checkpoint.read(path)
    lines = data.decode(errors="replace").splitlines() if data is not None else []
    try:
        offset = json.loads(lines[2])
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
