"""`seriatim spark bundle`: a zip of Seriatim's part for Spark's executors, for `--py-files`.

    spark-submit --py-files seriatim.zip .../jobs/archive/__main__.py ROOT

The zip contains the sources of `pyspark_seriatim`, `cardinal`, the client and the settings. None
of them need be compiled, so one zip serves every platform. Executors also need
the driver's version of Python, and pyarrow. The same sources make the same zip.
"""

import os
import zipfile
from pathlib import Path
from typing import Annotated, Final

import typer

from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.running.command import DONE, job

HERE: Final = Path(__file__).resolve().parents[3]
WHOLE: Final = ("pyspark_seriatim", "cardinal", "seriatim/client", "seriatim/settings")
PARTS: Final = ("seriatim/__init__.py",)
TIME: Final = (1980, 1, 1, 0, 0, 0)  # the earliest time in a zip
SUFFIXES: Final = {".py", ".properties", ".typed"}


@job
def bundle(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The zip, say seriatim.zip.")],
) -> int:
    """Zip what executors need of Seriatim, for spark-submit's --py-files."""
    path = Path(file)
    if path.suffix != ".zip":
        raise JobError(f"{file}: Spark accepts a zip only if its name ends in .zip")
    count = write(path)
    print(f"{path}: {count} files, {path.stat().st_size:,} bytes")
    return DONE


def write(path: Path) -> int:
    """Write the zip under its name only when complete; return its number of files."""
    names = sources()
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as made:
            for name in names:
                made.writestr(_entry(name), (HERE / name).read_bytes())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return len(names)


def sources() -> list[str]:
    """The files, under the paths by which they are imported."""
    whole = [path for room in WHOLE for path in (HERE / room).rglob("*") if path.suffix in SUFFIXES]
    some = [HERE / name for name in PARTS]
    return sorted(str(path.relative_to(HERE)) for path in (*whole, *some))


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry
