"""Reading the instructions of each function from callgrind's output."""

from pathlib import Path

from benchmarks.callgrind import functions

WRITTEN = """\
version: 1
events: Ir

ob=/venv/broker/dataplane/gate.cpython-311-x86_64-linux-gnu.so
fl=???
fn=__pyx_f_6broker_9dataplane_4gate_4Gate__flush
0 40
cfn=memcpy
calls=3 0
0 900
0 2

fn=__pyx_f_9sequencer_6digits_write_decimal'2
0 7

ob=/usr/lib/libc.so.6
fn=memcpy
0 900

ob=/usr/lib/libpython3.11.so.1.0
fn=_PyEval_EvalFrameDefault
0 30
fn=PyDict_Next
0 5
"""


def test_given_counts_with_calls_when_read_then_each_function_has_its_own_and_readable_name(
    tmp_path: Path,
) -> None:
    path = tmp_path / "counts.1"
    path.write_text(WRITTEN)

    assert functions(path) == {
        "gate.Gate._flush": 42,
        "sequencer.digits.write_decimal": 7,
        "memcpy": 900,
        "the interpreter": 35,
    }
