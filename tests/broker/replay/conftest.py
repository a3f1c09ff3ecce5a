"""A journal on a disk of memory, for tests of what is served from it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sequencer.journal.store import Store


@pytest.fixture
def store() -> "Iterator[Store]":
    from tests.support.stores import in_memory, open_store  # not before --pure hides the compiled

    with in_memory() as path:
        opened = open_store(Path(path) / "store", segment_bytes=100_000)
        yield opened
        opened.close()
