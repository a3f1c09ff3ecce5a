"""The Spark session of a job: that of spark-submit, or a new one.

The settings that a job needs, unless the user has set them by `--conf` or spark-submit:

    checkpoints by plain file operations     40 ms less per trigger than Spark's default
    Arrow in batches of 65 536 rows, UTC     as the source delivers them
    one Python for driver and workers        Spark's default is any `python3` in the PATH

The source `seriatim` is registered with the session, and Parquet pages are verified.
"""

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark_seriatim.installed import trouble
from pyspark_seriatim.jobs.errors import JobError, first_line
from pyspark_seriatim.jobs.filelog.pages import VERIFY
from pyspark_seriatim.jobs.running.command import words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINTS: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
LOGGING: Final = Path(__file__).with_name("log4j2.properties")
# The masters that Spark's own launcher accepts; for others it shows a stack trace.
MASTER: Final = re.compile(
    r"yarn|(spark|k8s)://.+|local|local\[(\d+|\*)(, *\d+)?\]|local-cluster\[\d+, *\d+, *\d+\]"
)
# All of these may be changed in a running session.
DEFAULTS: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
# For a local master: no port may be reachable from outside, and few partitions are enough.
LOCAL: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
}


def spark_session(
    name: str, master: str | None = None, conf: Mapping[str, str] | None = None
) -> "SparkSession":
    """A session called `name`; `conf` wins over the job's settings. Raises `JobError`.

    A session that spark-submit (or a test) has started is used; then only those settings of `conf`
    count that may still change.
    """
    if trouble():
        raise JobError(trouble())
    session = _session(name, master, conf or {})
    register(session)
    if session.conf.get(VERIFY, None) is None:
        session.conf.set(VERIFY, "true")
    return session


def register(session: "SparkSession") -> None:
    """Register the source `seriatim` with a session, whether Spark finds it itself or not.

    Spark looks for sources in a Python worker, once per session. If that worker dies, the session
    never has a Python source again. Sources that Spark finds itself are planned with the driver's
    Python; so is this one, because the executors may only have the modules of `--py-files`.
    """
    from pyspark_seriatim import DefaultSource

    context = session.sparkContext
    executors = context.pythonExec
    context.pythonExec = os.environ.get("PYSPARK_DRIVER_PYTHON") or executors
    try:
        session.dataSource.register(DefaultSource)
    finally:
        context.pythonExec = executors


def _session(name: str, master: str | None, conf: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return _adjusted(active, conf)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit has started the JVM
    if not submitted:
        _check_master(master or conf.get("spark.master", "local"))
        _find_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = dict(conf)
    if submitted:  # its settings are in the JVM, and must not be overwritten from here
        settings |= {"spark.master": master} if master is not None else {}
    else:
        settings = _settings(master or settings.get("spark.master", "local[*]")) | settings
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
        return _adjusted(session, settings) if submitted else session
    except Exception as error:  # errors of the JVM come as many types
        raise JobError(f"Spark does not start: {words(error) or first_line(error)}") from error


def _settings(master: str) -> dict[str, str]:
    """The settings of a new session."""
    settings = DEFAULTS | {"spark.master": master, "spark.ui.showConsoleProgress": "false"}
    if master.startswith("local"):
        cores = os.cpu_count() or 1
        settings |= LOCAL | {"spark.sql.shuffle.partitions": str(cores)}
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={LOGGING}"
    return settings


def _adjusted(session: "SparkSession", conf: Mapping[str, str]) -> "SparkSession":
    """An existing session, with the missing settings that may still change."""
    for key, value in (DEFAULTS | dict(conf)).items():
        wanted = key in conf or session.conf.get(key, None) is None
        if wanted and (key in DEFAULTS or session.conf.isModifiable(key)):
            session.conf.set(key, value)
    return session


def _check_master(master: str) -> None:
    """Raise `JobError` for a master that Spark does not know."""
    if MASTER.fullmatch(master) is None:
        raise JobError(
            f"--master {master}: write local[*], local[4], spark://HOST:7077, k8s://... or yarn"
        )


def _find_java() -> None:
    """Raise `JobError` if there is no Java."""
    home = os.environ.get("JAVA_HOME")
    if home and not Path(home, "bin", "java").exists():
        raise JobError(f"JAVA_HOME is {home}, but there is no bin/java in it")
    if not home and shutil.which("java") is None:
        raise JobError(
            "Spark needs Java 17 or 21, but there is no `java`: apt-get install"
            " default-jre-headless, or set JAVA_HOME"
        )
