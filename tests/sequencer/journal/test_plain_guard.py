"""The guard of a build that is not compiled does the same, whichever build this is."""

from pathlib import Path

import pytest

from tests.crash.disks import mounted, why_not
from tests.sequencer.journal import test_window_guard as compiled
from tests.support.places import ROOT

# The compiled module is put aside: the source beside it is run.
PLAIN = """
import importlib.util, sys
name = "sequencer.journal.window_guard"
spec = importlib.util.spec_from_file_location(name, "ROOT/sequencer/journal/window_guard.py")
module = sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
import sequencer.journal.plain_guard
assert module.guard_begin is sequencer.journal.plain_guard.guard_begin
""".replace("ROOT", str(ROOT))


def test_given_a_full_disk_then_pages_are_kept_in_memory_until_there_is_room() -> None:
    if why_not("tmpfs"):
        pytest.skip(why_not("tmpfs"))
    with mounted("tmpfs", 1 << 20) as disk:
        done = compiled.run(PLAIN + compiled.HOLE, str(disk))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("how", ["sent", "of other memory"])
def test_given_a_signal_that_is_not_of_a_window_then_it_ends_the_process(
    how: str, tmp_path: Path
) -> None:
    done = compiled.run(PLAIN + compiled.FOREIGN, str(tmp_path / "file"), how)
    assert done.returncode == -compiled.signal.SIGBUS
