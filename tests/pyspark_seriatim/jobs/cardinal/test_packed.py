"""Messages of one block in one row, and out of it again."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pyspark_seriatim.jobs.cardinal.packed import pack, unpack

MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(["", "reorg.1"]),
        st.sampled_from([b"", b"a" * 32, b"b" * 32]),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**50),
        st.binary(max_size=9),
    ),
    unique_by=lambda message: message[2],
)


def batch_of(messages: list[tuple[str, bytes, int, int, bytes]]) -> pa.RecordBatch:
    kinds = (pa.string(), pa.binary(), pa.int64(), pa.int64(), pa.binary())
    columns = [pa.array([one[at] for one in messages], kind) for at, kind in enumerate(kinds)]
    return pa.RecordBatch.from_arrays(
        columns, names=["topic", "hash", "sequence", "time", "payload"]
    )


@given(MESSAGES, st.integers(0, 20))
def test_given_any_messages_when_packed_then_each_is_in_the_one_row_of_its_block(
    messages: list[tuple[str, bytes, int, int, bytes]], cut: int
) -> None:
    whole = batch_of(messages)
    parts = [whole.slice(0, cut), whole.slice(cut)]
    rows = [row for batch in pack(parts) for row in batch.to_pylist()]
    for part in parts:
        blocks = set(zip(part["topic"].to_pylist(), part["hash"].to_pylist(), strict=True))
        assert sum(batch.num_rows for batch in pack([part])) == len(blocks)
    for block in {(row["topic"], row["hash"]) for row in rows}:
        mine = [row for row in rows if (row["topic"], row["hash"]) == block]
        sequences, times, payloads = unpack(row["messages"] for row in mine)
        wanted = sorted(one[2:] for one in messages if one[:2] == block)
        found = zip(sequences.tolist(), times.tolist(), payloads.to_pylist(), strict=True)
        assert list(found) == wanted
        lowest = min(int(row["timestamp"].timestamp() * 1e6 + 0.5) for row in mine)
        assert lowest == min(time for _, time, _ in wanted)
