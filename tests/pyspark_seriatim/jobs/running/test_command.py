"""What a job prints when it cannot go on: one line, without Spark's stack traces."""

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, StreamingQueryException

from pyspark_seriatim.errors import BrokerError, ConnectionLost, OptionError
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.running.command import DONE, FAILED, INTERRUPTED, job, settings, words

OF_A_READER = """[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):
  File "/opt/pyspark_seriatim/source.py", line 200, in partitions
    info = self.client().info()
seriatim.client.errors.ConnectionLost: 127.0.0.1:1: connection refused: no broker listens there
 SQLSTATE: 38000"""
OF_A_STREAM = """[STREAM_FAILED] Query terminated with exception: Traceback (most recent call last):
pyspark_seriatim.jobs.filelog.WriterConflict: another writer began after this one
 SQLSTATE: XXKST
=== Streaming Query ==="""
OF_THE_JVM = """An error occurred while calling o72.stop.
: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.
\tat org.apache.spark.SparkContext.assertNotStopped(SparkContext.scala:128)"""

OF_A_TASK = """An error occurred while calling o72.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 1 times:
Traceback (most recent call last):
pyspark_seriatim.errors.BrokerError: the first attempt
During handling of the above exception, another exception occurred:
pyspark_seriatim.errors.BrokerError: what counts
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2898)"""
OF_JAVA = """[STREAM_FAILED] Query terminated with exception:  SQLSTATE: XXKST
Caused by: org.apache.spark.SparkException:
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)"""
OF_PYTHON = """An error occurred while calling o72.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure:
Caused by: org.apache.spark.api.python.PythonException: An exception was thrown:
Traceback (most recent call last):
  File "/opt/spark/python/pyspark/worker.py", line 1, in main
    process()
ModuleNotFoundError: No module named 'cardinal'
\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)"""
OF_A_WORKER = """[STREAM_FAILED] Query terminated with exception: SQLSTATE: XXKST
Caused by: org.apache.spark.SparkException: Python worker failed to connect back.
Caused by: java.net.SocketTimeoutException: Accept timed out"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Py4JError(OF_A_TASK), "what counts"),
        (StreamingQueryException(OF_JAVA), "No space left on device"),
        (Py4JError(OF_PYTHON), "ModuleNotFoundError: No module named 'cardinal'"),
        (
            StreamingQueryException(OF_A_WORKER),
            "Python worker failed to connect back; a worker must start within seconds and reach",
        ),
        (
            AnalysisException(OF_A_READER),
            "127.0.0.1:1: connection refused: no broker listens there",
        ),
        (StreamingQueryException(OF_A_STREAM), "another writer began after this one"),
        (AnalysisException("[PATH_NOT_FOUND] Path does not exist\nmore"), "[PATH_NOT_FOUND] Path"),
        (
            Py4JError(OF_THE_JVM),
            "java.lang.IllegalStateException: Cannot call methods on a stopped",
        ),
        (
            ModuleNotFoundError("no", name="pyarrow.lib"),
            "pyarrow.lib is not installed: pip install",
        ),
        (OptionError("servers: missing"), "servers: missing"),
        (BrokerError("refused"), "refused"),
        (ConnectionLost("nobody"), "nobody"),
        (OSError("Unable to load libjvm\ndlopen(/x/libjvm.so)\nmore"), "Unable to load libjvm"),
        (FileNotFoundError(2, "No such file or directory", "/x"), "/x: No such file or directory"),
    ],
    ids=[
        "the last of several",
        "Java's last cause",
        "Python's",
        "a worker that cannot connect",
        "reader",
        "stream",
        "Spark's own",
        "JVM",
        "extra",
        "option",
        "broker",
        "unreachable",
        "lines",
        "file",
    ],
)
def test_given_an_error_that_is_no_defect_when_reported_then_it_is_one_line(
    error: Exception, line: str
) -> None:
    told = words(error)
    assert told is not None
    assert told.startswith(line)
    assert "\n" not in told


def test_given_a_defect_when_reported_then_it_is_called_one_and_the_text_says_where_to_look(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SERIATIM_TRACEBACK", raising=False)

    @job
    def broken() -> int:
        raise KeyError("x")

    assert words(KeyError("x")) is None
    assert broken() == FAILED
    assert "seriatim: unexpected KeyError: 'x' (a defect of Seriatim" in capsys.readouterr().err


def test_given_a_job_when_it_ends_then_its_status_says_how(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SERIATIM_TRACEBACK", raising=False)

    @job
    def ending(error: BaseException | None) -> int:
        if error is not None:
            raise error
        return DONE

    assert ending(None) == DONE
    assert ending(KeyboardInterrupt()) == INTERRUPTED
    assert ending(JobError("no such thing")) == FAILED
    assert capsys.readouterr().err == "seriatim: no such thing\n"


def test_given_settings_of_spark_when_read_then_a_crooked_one_is_named() -> None:
    assert settings(["a.b=c=d", "e="]) == {"a.b": "c=d", "e": ""}
    with pytest.raises(JobError, match=r"--conf a\.b: write KEY=VALUE"):
        settings(["a.b"])
