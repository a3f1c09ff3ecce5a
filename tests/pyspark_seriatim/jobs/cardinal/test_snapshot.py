"""Snapshots: a job's state comes back as it was, or not at all."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cardinal.follower import ChainFollower
from cardinal.pending import DONE
from pyspark_seriatim.jobs.cardinal import snapshot
from pyspark_seriatim.jobs.cardinal.snapshot import UnreadableSnapshot, dump, load
from tests.cardinal.chains import GENESIS, SCHEMA, Producer, branch, messages_of, rows_of
from tests.support.depth import examples
from tests.support.places import VECTORS

BLOCKS = [*branch(GENESIS, "x", 4), *branch(GENESIS, "y", 3)]
CHANNEL = Producer(SCHEMA).reorg(0, GENESIS.hash, 0, BLOCKS[-1].hash)
SENT = [part for block in BLOCKS for part in messages_of(Producer(SCHEMA), block)]
ROWS = rows_of([*SENT, CHANNEL.begin(), *SENT])


@pytest.mark.parametrize("tracking", [None, SCHEMA.track("a/")], ids=["everything", "tracked"])
@settings(max_examples=examples(60))
@given(at=st.integers(0, len(ROWS)))
def test_given_a_follower_anywhere_when_it_comes_back_then_it_goes_on_as_the_other(
    tracking: object, at: int
) -> None:
    follower = ChainFollower(tracking, age_max=50.0)  # type: ignore[arg-type]
    follower.take(ROWS[:at], "s", 0.0)
    about, back = load(dump({"next": at}, follower))
    assert about == {"next": at}
    assert back.take(ROWS[at:], "s", 9.0) == follower.take(ROWS[at:], "s", 9.0)
    assert back.take([], "s", 99.0) == follower.take([], "s", 99.0), "what was not whole"
    assert back.token("s") == follower.token("s")


def test_given_blocks_that_were_given_when_they_come_back_then_they_are_known() -> None:
    assert pickle.loads(pickle.dumps({"a": DONE}))["a"] is DONE
    follower = ChainFollower()
    follower.take(ROWS, "s", 0.0)
    _, back = load(dump({}, follower))
    assert back.take(ROWS, "s", 0.0) == []
    assert back.assembler.duplicates >= len(SENT)


def test_given_a_snapshot_with_the_names_of_old_when_loaded_then_it_goes_on() -> None:
    about, back = load((VECTORS / "cardinal_snapshot_4.bin").read_bytes())
    at = about["next"]
    follower = ChainFollower(SCHEMA.track("a/"), age_max=50.0)
    follower.take(ROWS[:at], "s", 0.0)
    assert back.take(ROWS[at:], "s", 9.0) == follower.take(ROWS[at:], "s", 9.0)
    assert back.token("s") == follower.token("s")


@given(st.integers(0, 2000), st.integers(1, 255))
def test_given_a_damaged_octet_when_read_then_it_is_refused(at: int, by: int) -> None:
    follower = ChainFollower()
    follower.take(ROWS, "s", 0.0)
    data = bytearray(dump({}, follower))
    at += data.index(b"\n") + 1
    data[at] ^= by
    with pytest.raises(UnreadableSnapshot, match="damaged"):
        load(bytes(data))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a snapshot"),
        (b"something else\nand more", "not a snapshot"),
        (dump({}, 1)[:-1], "damaged"),
        (dump({}, 1).replace(b"cardinal 4 ", b"cardinal 9 "), "its version is 9"),
    ],
)
def test_given_input_that_is_no_snapshot_of_ours_when_read_then_it_says_so(
    data: bytes, why: str
) -> None:
    with pytest.raises(UnreadableSnapshot, match=why):
        load(data)


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("run",)


def test_given_a_snapshot_that_would_run_code_when_read_then_it_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(UnreadableSnapshot, match=r"holds a builtins\.print"):
        snapshot.loads(pickle.dumps(Evil()))
    assert capsys.readouterr().out == ""
