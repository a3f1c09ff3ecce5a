"""Where staging works: in the journal's directory, or in a temporary one."""

from pathlib import Path

import pytest

from tests.support.serving import serving
from tests.support.staging import ALONE, Batch, Publisher, Refused, piece

ROW = b"PUB orders 5\r\nhello\r\n"


@pytest.mark.parametrize("ring", ["4MiB", "0"])
def test_given_no_journal_then_it_works_in_a_directory_that_goes_with_the_broker(
    tmp_path: Path, ring: str
) -> None:
    flags = {"journal.enabled": False, "journal.ring_bytes": ring}
    with serving(tmp_path, flags=flags) as broker:
        publisher = Publisher(broker)
        assert publisher.publish(Batch("app", 1, 30, stages=2))["last"] == 30
        assert publisher.publish(Batch("app", 1, 30))["repeated"]
        assert broker.server.staging is not None
        folder = Path(broker.server.staging.files.folder)
        assert folder.is_dir()
    assert not folder.exists()
    assert not (tmp_path / "staging").exists()


def test_given_a_directory_that_cannot_be_made_then_it_is_reported_and_tried_again(
    tmp_path: Path,
) -> None:
    with serving(tmp_path / "store", flags=ALONE) as broker:
        publisher = Publisher(broker)
        other = tmp_path / "store" / "staging"
        other.write_text("")  # a file of that name, for root may do anything else
        words = "No stage can be written to the disk: Not a directory"
        assert publisher.one(piece("app", 1, "s", 0, ROW)) == Refused(507, words)
        other.unlink()
        assert publisher.one(piece("app", 1, "s", 0, ROW)) == {"bytes": 21, "rows": 1}
