"""The pure parts of a replay: chunks, steps, subjects, origin headers, and its name."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_seriatim.jobs.archive.rows import ArchivePart, open_archive
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.replay.replay_job import summary
from pyspark_seriatim.jobs.replay.replay_options import Renaming, application_of, options_of
from pyspark_seriatim.jobs.replay.replaying import STEP_BYTES, Replayed, _pieces, cut, with_origin
from tests.support.depth import examples
from tests.support.parquet_folders import rows, write

ALL = Renaming()
parts = st.builds(
    lambda first, size, share: ArchivePart(
        "x", max(size * share // 10, 1), first, first + size - 1
    ),
    st.integers(1, 5000),
    st.integers(1, 5000),
    st.integers(1, 10),
)


@settings(max_examples=examples(50))
@given(st.lists(parts, min_size=1, max_size=5), st.integers(50, 2000), st.integers(1, 12_000))
def test_given_any_files_when_cut_then_the_pieces_are_the_span_and_none_is_long(
    some: list[ArchivePart], wanted: int, last: int
) -> None:
    pieces = list(cut(some, (1, last), wanted))
    assert pieces[0][0] == 1
    assert pieces[-1][1] == last
    assert all(one[1] + 1 == two[0] for one, two in pairwise(pieces))
    for begin, end in pieces:
        inside = [
            part.rows * max(min(part.last, end - 1) - max(part.first, begin) + 1, 0)
            / (part.last - part.first + 1)
            for part in some
        ]  # fmt: skip
        assert sum(inside) < wanted, "a piece ends with the number that makes it full"


def test_given_an_empty_span_when_cut_then_there_is_no_piece() -> None:
    assert list(cut([ArchivePart("x", 5, 1, 5)], (6, 5), 10)) == []


def test_given_batches_when_made_pieces_then_rows_and_bytes_have_their_bounds() -> None:
    numbers = range(1, 2001)
    batches = rows(numbers).to_batches(max_chunksize=300)
    found = list(_pieces(batches, 450))
    assert [piece.num_rows for piece in found] == [450] * 4 + [200]
    assert [n for piece in found for n in piece.column("sequence").to_pylist()] == list(numbers)
    long = rows(range(1, 9), payload=[b"x" * (STEP_BYTES // 3)] * 8).to_batches()
    assert [piece.num_rows for piece in _pieces(long, 450)] == [4, 4]


def test_given_rows_without_headers_when_given_an_origin_then_it_is_their_only_header() -> None:
    (batch,) = rows([7, 8]).to_batches()
    assert with_origin(batch).to_pylist() == [
        [
            ("Nats-Origin-Sequence", [number]),
            ("Nats-Origin-Time-Stamp", [f"2023-11-14T22:13:20.0000{number}0Z"]),
        ]
        for number in ("7", "8")
    ]


def test_given_rows_with_headers_when_given_an_origin_then_it_stands_after_them() -> None:
    headers = [[("a", ["1", "2"])], None, [], [("b", ["3"]), ("c", [])]]
    (batch,) = rows([4, 5, 6, 7], headers=headers).slice(1).to_batches()
    found = with_origin(batch)
    assert found.type == pa.map_(pa.string(), pa.list_(pa.string()))
    names = [[name for name, _ in row] for row in found.to_pylist()]
    origin = ["Nats-Origin-Sequence", "Nats-Origin-Time-Stamp"]
    assert names == [origin, origin, ["b", "c", *origin]]
    assert [dict(row)["Nats-Origin-Sequence"] for row in found.to_pylist()] == [["5"], ["6"], ["7"]]
    assert dict(found.to_pylist()[2])["b"] == ["3"]


def test_given_subjects_when_renamed_then_the_front_goes_and_the_prefix_comes() -> None:
    subjects = pa.array(["eu.orders", "eu.trades.x"])
    assert ALL.apply(subjects) is subjects
    assert Renaming("copy.of", "").apply(subjects)[1].as_py() == "copy.of.eu.trades.x"
    assert Renaming("us", "eu").apply(subjects).to_pylist() == ["us.orders", "us.trades.x"]
    with pytest.raises(JobError, match=r"--strip eu: europe.x does not begin with it"):
        Renaming("", "eu").apply(pa.array(["eu.orders", "europe.x"]))


def test_given_other_messages_or_subjects_when_replayed_then_it_is_another_application(
    tmp_path: Path,
) -> None:
    archive = open_archive(write(tmp_path / "a", {"x.parquet": rows([1])}))
    other = open_archive(write(tmp_path / "b", {"x.parquet": rows([1]), "y.parquet": rows([2])}))
    names = [
        application_of(archive, ">", ALL),
        application_of(other, ">", ALL),
        *(application_of(open_archive(f"{tmp_path}/b/{one}.parquet"), ">", ALL) for one in "xy"),
        *(application_of(replace(archive, journal="j", subject=one), ">", ALL) for one in "ab"),
        application_of(archive, "a.>", ALL),
        application_of(archive, ">", Renaming("p")),
        application_of(archive, ">", Renaming("", "p")),
    ]
    assert len(set(names)) == len(names)
    again = open_archive(f"{tmp_path}/b/../a")
    assert application_of(again, ">", ALL) == names[0]


def test_given_skipped_messages_when_reported_then_their_count_and_the_first_are_shown(
    tmp_path: Path,
) -> None:
    root = write(tmp_path, {"x.parquet": rows([1])})
    options = options_of(root, "h:1", None, None, ">", ALL, "me", False, 0.0, True)
    assert options.skip
    some = Replayed(rows=3, skipped=1200, example="number 7: no", last=3, first=1, upto=9)
    assert summary(options, some).endswith(
        "; 1,200 that cannot be published were skipped, the first: number 7: no"
    )
    assert summary(options, replace(some, rows=0)).startswith(
        "nothing was published, up to number 9 of the archive; 1,200 that cannot"
    )
    assert summary(options, Replayed(upto=9)).startswith("nothing to replay: 'me' reached number 9")


def test_given_what_cannot_be_when_asked_for_then_the_error_names_the_option(
    tmp_path: Path,
) -> None:
    root = write(tmp_path / "a", {"x.parquet": rows(range(5, 10))})
    bare = write(tmp_path / "b", {"x.parquet": rows([1]).select(["sequence"])})

    def options(
        root: str = root,
        first: int | None = None,
        last: int | None = None,
        renaming: Renaming = ALL,
        name: str | None = None,
    ) -> tuple[int, int]:
        return options_of(root, "h:1", first, last, ">", renaming, name, False, 0.0).span

    assert options() == (5, 9)
    assert options(first=7, last=70) == (7, 9)
    assert options(first=1, last=6) == (5, 6)
    wrong: list[tuple[str, Callable[[], object]]] = [
        ("--to 2 is below --from 3", lambda: options(first=3, last=2)),
        (r"--prefix a\.\*", lambda: options(renaming=Renaming("a.*"))),
        (r"--strip a\.", lambda: options(renaming=Renaming("", "a."))),
        ("--application ''", lambda: options(name="")),
        ("--application 'a\\\\n'", lambda: options(name="a\n")),
        ("no column 'subject'", lambda: options(root=bare)),
    ]
    for words, call in wrong:
        with pytest.raises(JobError, match=words):
            call()
