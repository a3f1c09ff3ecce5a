"""The views' columns: none is cut by its title; rows in order, and found."""

import pytest

from seriatim.cli.top.row_tables import CONNECTIONS, STREAMS, VIEWS, RowTable


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.kind)
def test_given_a_view_then_each_column_has_room_for_its_title_and_the_mark(view: RowTable) -> None:
    assert view.column(view.sort) is not None
    assert [one.title for one in view.columns if len(one.title) + 1 > one.width] == []
    titles = [one.title for one in view.columns]
    assert len(titles) == len(set(titles))


def test_given_rows_without_a_value_then_they_are_last_in_both_orders() -> None:
    column = CONNECTIONS.column("out/s")
    assert column is not None
    rows = [{"id": at, column.key: value} for at, value in enumerate((None, 2.0, 1.0, None, 2.0))]
    for descending, order in ((True, [1, 4, 2, 0, 3]), (False, [2, 1, 4, 0, 3])):
        assert [one["id"] for one in CONNECTIONS.sorted(rows, column, descending)] == order


def test_given_a_filter_then_it_finds_what_is_shown() -> None:
    rows = [
        {"id": "1", "name": "ORDERS", "messages": 1234567},
        {"id": "2", "name": "a\x1bb", "messages": 0},
    ]
    for words, found in (("order", "1"), ("1,234", "1"), (r"\x1B", "2"), ("\x1b", ""), ("", "12")):
        assert "".join(one["id"] for one in STREAMS.found(rows, words)) == found
