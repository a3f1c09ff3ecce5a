"""Pages that are followed from top to bottom: each command and program prints what they say."""

from pathlib import Path

import pytest

from tests.support.pages import played
from tests.support.processes import STAND_IN

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")
PAGES = ["event-sourcing", "exactly-once", "from-jetstream-and-kafka", "order-book"]


@pytest.mark.parametrize("page", PAGES)
def test_given_a_page_when_all_that_it_tells_is_done_then_it_prints_what_the_page_says(
    tmp_path: Path, page: str
) -> None:
    played(f"docs/{page}.md", tmp_path)
