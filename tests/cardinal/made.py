"""Messages of every kind, for properties."""

from hypothesis import strategies as st

from cardinal.messages import (
    INT_MAX,
    NO_ID,
    NUMBER_MAX,
    WEIGHT_MAX,
    Batch,
    Delete,
    Entry,
    Message,
    Ping,
    Reorg,
    ReorgComplete,
    SubBatchHeader,
    SubBatchMessage,
    Update,
)

hashes = st.binary(min_size=32, max_size=32)
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ints = st.integers(0, INT_MAX) | st.integers(0, 200)
numbers = st.integers(0, NUMBER_MAX) | st.integers(0, 200)
values = st.binary(max_size=300)
entries = st.builds(Entry, values, ints, st.booleans(), st.just(NO_ID) | hashes)
batches = st.builds(
    Batch,
    hashes,
    numbers,
    st.integers(0, WEIGHT_MAX),
    hashes,
    st.dictionaries(keys, entries, max_size=6),
)
sub_batch_messages = st.builds(
    SubBatchMessage,
    hashes,
    hashes,
    ints,
    st.lists(keys, max_size=4),
    st.dictionaries(keys, values, max_size=4),
)
messages: st.SearchStrategy[Message] = st.one_of(
    batches,
    sub_batch_messages,
    st.builds(SubBatchHeader, hashes, hashes, ints),
    st.builds(Update, hashes, keys, values),
    st.builds(Delete, hashes, keys),
    st.builds(Reorg, hashes, numbers),
    st.builds(ReorgComplete, hashes, numbers),
    st.builds(Ping, hashes, values),
)
