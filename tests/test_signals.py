"""Programs that tests start can be interrupted, wherever the tests themselves were started."""

import signal
import subprocess
import sys

PROGRAM = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"


def test_given_this_runner_when_it_starts_a_program_then_ctrl_c_would_reach_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n", "SIGINT is ignored: see tests/conftest.py"
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
