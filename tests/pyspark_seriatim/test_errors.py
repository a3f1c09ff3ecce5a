"""Errors cross processes: each is the same on the other side."""

import pickle

import pytest

from pyspark_seriatim import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.OptionError("fetchRows: no"),
        errors.DataLost("5 to 7 are lost"),
        errors.RowError("row 7"),
        errors.ColumnError("subject"),
        errors.BrokerError("no", 400),
        errors.ConnectionLost("gone"),
    ],
)
def test_given_an_error_when_pickled_then_it_is_the_same(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert getattr(again, "status", 0) == getattr(error, "status", 0)
