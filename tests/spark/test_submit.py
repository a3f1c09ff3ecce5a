"""A job by spark-submit, on executors that only have what `--py-files` brings."""

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest

from pyspark_seriatim.jobs import archive
from pyspark_seriatim.jobs.bundle import bundle_job
from pyspark_seriatim.jobs.filelog import FileLog
from tests.support.processes import SeriatimServer

SUBMIT = Path(sys.executable).with_name("spark-submit")
JOB = str(Path(archive.__file__).with_name("__main__.py"))
JOB_S = 120.0
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a JVM that compiles less is up sooner
COUNT = 1000


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A Python that has pyarrow, as executors have, and not Seriatim."""
    venv.create(tmp_path / "bare", with_pip=False)
    (site,) = (tmp_path / "bare" / "lib").glob("python*/site-packages")
    # Of a folder that a .pth names, the .pth files (as that of an editable install) do not count.
    site.joinpath("packages.pth").write_text(f"{Path(pyarrow.__file__).parents[1]}\n")
    return tmp_path / "bare" / "bin" / "python"


def environment(**more: str) -> dict[str, str]:
    """What a shell has, and nothing of the session that this process may have."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_"))}
    kept.pop("PYTHONPATH", None)
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", **more}


def test_given_executors_without_seriatim_when_a_job_is_submitted_with_the_zip_then_it_is_done(
    broker: SeriatimServer, publish: Callable[..., None], bare: Path, tmp_path: Path
) -> None:
    missing = subprocess.run(
        [bare, "-c", "import pyarrow, pyspark_seriatim"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert "No module named 'pyspark_seriatim'" in missing.stderr
    publish([b"%d" % n for n in range(COUNT)])
    bundle_job.write(tmp_path / "seriatim.zip")
    root = tmp_path / "archive"
    done = subprocess.run(
        [
            *(str(SUBMIT), "--master", "local-cluster[1,1,512]", "--driver-memory", "512m"),
            *("--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false"),
            *("--conf", f"spark.executor.extraJavaOptions={QUICK}", "--driver-java-options", QUICK),
            *("--conf", "spark.log.level=ERROR", "--py-files", str(tmp_path / "seriatim.zip")),
            *(JOB, str(root), "--once", "-s", f"127.0.0.1:{broker.port}"),
        ],
        cwd=tmp_path,
        env=environment(
            PYSPARK_PYTHON=str(bare),
            PYSPARK_DRIVER_PYTHON=sys.executable,
            SPARK_WORKER_DIR=str(tmp_path / "work"),
        ),
        capture_output=True,
        text=True,
        timeout=JOB_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"{COUNT:,} messages" in done.stdout
    files = FileLog.open(str(root)).files("messages")
    assert [(file.rows, file.first, file.last) for file in files] == [(COUNT, 1, COUNT)]
