"""docs/client.md, README and docs/resuming.md: their programs for our own client are run."""

import re
from pathlib import Path

import pytest

from tests.support.pages import programs, put, start, whole
from tests.support.processes import STAND_IN, SeriatimServer

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")


def test_given_the_first_program_then_it_shows_the_past_and_then_what_comes(tmp_path: Path) -> None:
    program = programs("docs/client.md")[0]
    assert len(program.splitlines()) == 5
    with SeriatimServer() as broker:
        put(broker.port, 2)
        with start(program, broker.port, tmp_path) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "1 orders.eu b'000'\n"
            assert process.stdout.readline() == "2 orders.eu b'001'\n"
            broker.kill()
            broker.restart()
            put(broker.port, 1)
            assert process.stdout.readline() == "3 orders.eu b'000'\n"
            process.kill()


def test_given_the_program_for_asyncio_then_it_publishes_and_reads(tmp_path: Path) -> None:
    with SeriatimServer() as broker:
        said = whole(programs("docs/client.md")[1], broker.port, tmp_path)
    assert re.fullmatch(r"published as 1\n1 2\d{3}-[-0-9:. ]*\+00:00 10 apples\n", said)


@pytest.mark.parametrize("page", ["docs/client.md", "docs/resuming.md"])
def test_given_the_program_with_a_table_when_it_is_run_again_then_each_is_there_once(
    tmp_path: Path, page: str
) -> None:
    (program,) = [one for one in programs(page) if "sqlite3" in one]
    if page == "docs/resuming.md":  # it has no end
        program = program.replace("position=(load, save)", 'position=(load, save), until="now"')
    program += 'print(table.execute("SELECT count(*), max(number) FROM orders").fetchone())\n'
    with SeriatimServer() as broker:
        put(broker.port, 5)
        assert whole(program, broker.port, tmp_path) == "(5, 5)\n"
        put(broker.port, 3)
        assert whole(program, broker.port, tmp_path) == "(8, 8)\n"


def test_given_the_program_with_a_request_then_it_is_answered(tmp_path: Path) -> None:
    with SeriatimServer() as broker:
        assert whole(programs("docs/client.md")[-1], broker.port, tmp_path) == "42\n"


def test_given_the_program_of_the_readme_then_it_shows_what_it_published(tmp_path: Path) -> None:
    (program,) = programs("README.md")
    with SeriatimServer() as broker:
        said = whole(program, broker.port, tmp_path)
    assert said.startswith("published as 1\n1 ")
    assert said.endswith(" orders.eu b'10 apples'\n")
