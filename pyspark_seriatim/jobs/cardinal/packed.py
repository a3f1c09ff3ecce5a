"""Packs the messages of one block into one row, because stateful operators get rows one by one.

    (topic, hash, sequence, time, payload) --> (topic, hash, timestamp, messages)

`messages` has those of one block from one Arrow batch, in the order of their numbers:

    count u32 | sequences i64[count] | times i64[count] | offsets i32[count + 1] | payloads

Little-endian, with offsets as in Arrow. `timestamp` is the earliest of the messages'.
"""

import itertools
import struct
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

PACKED: Final = "topic string, hash binary, timestamp timestamp, messages binary"
COUNT: Final = struct.Struct("<I")
EACH_BYTES: Final = 20  # per message, without its payload

Numbers = npt.NDArray[np.int64]


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: one row for each block of a batch."""
    for batch in batches:
        if batch.num_rows:
            yield _packed(batch)


def unpack(blobs: Iterable[bytes]) -> tuple[Numbers, Numbers, pa.Array]:
    """Sequences, times (us) and payloads (binary) of several rows, in order of the sequences."""
    sequences, times, payloads = [], [], []
    for blob in blobs:
        (count,) = COUNT.unpack_from(blob)
        sequences.append(np.frombuffer(blob, "<i8", count, COUNT.size))
        times.append(np.frombuffer(blob, "<i8", count, COUNT.size + 8 * count))
        offsets, data = COUNT.size + 16 * count, COUNT.size + EACH_BYTES * count + 4
        whole = pa.py_buffer(blob)
        buffers = [None, whole.slice(offsets, data - offsets), whole.slice(data)]
        payloads.append(pa.Array.from_buffers(pa.binary(), count, buffers))
    numbers, joined = np.concatenate(sequences), pa.concat_arrays(payloads)
    if (numbers[1:] > numbers[:-1]).all():
        return numbers, np.concatenate(times), joined
    order = np.argsort(numbers)
    return numbers[order], np.concatenate(times)[order], joined.take(pa.array(order))


def _packed(batch: pa.RecordBatch) -> pa.RecordBatch:
    topics = batch.column("topic").dictionary_encode()
    hashes = batch.column("hash").dictionary_encode()
    sequences = batch.column("sequence").to_numpy()
    blocks = topics.indices.to_numpy() * np.int64(len(hashes.dictionary))
    blocks = blocks + hashes.indices.to_numpy()
    order = np.lexsort((sequences, blocks))
    begins = np.flatnonzero(np.diff(blocks[order], prepend=-1))
    edges = [*begins.tolist(), len(order)]
    batch = batch.take(pa.array(order))
    sequences, times = (batch.column(name).to_numpy() for name in ("sequence", "time"))
    payloads = batch.column("payload")
    _, places, content = payloads.buffers()
    offsets = np.frombuffer(places, np.int32)[payloads.offset : payloads.offset + len(order) + 1]
    data = memoryview(b"" if content is None else content)
    messages = [
        b"".join(
            (
                COUNT.pack(end - begin),
                sequences[begin:end].tobytes(),
                times[begin:end].tobytes(),
                (offsets[begin : end + 1] - offsets[begin]).tobytes(),
                data[offsets[begin] : offsets[end]],
            )
        )
        for begin, end in itertools.pairwise(edges)
    ]
    firsts = pa.array(begins)
    lowest = np.minimum.reduceat(times, begins)
    return pa.RecordBatch.from_arrays(
        [
            batch.column("topic").take(firsts),
            batch.column("hash").take(firsts),
            pc.cast(pa.array(lowest), pa.timestamp("us", "UTC")),
            pa.array(messages, pa.binary()),
        ],
        names=["topic", "hash", "timestamp", "messages"],
    )
