"""An older PySpark: links to the installed one, with another version, without some module."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from tests.support.places import ROOT

HERE = ROOT
RUN_S = 60.0
TOLD = (
    "PySpark 4.1.1 is installed, but 4.2 or later is needed: pip install '.[spark]' in a checkout"
    " of Seriatim"
)


def run(program: str, *places: str) -> subprocess.CompletedProcess[str]:
    """Run a program with these places in its PYTHONPATH, and Seriatim behind them."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((*places, str(HERE)))},
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )


def older_pyspark(folder: Path, version: str, without: str = "") -> str:
    """Make it below `folder`; what is to be in PYTHONPATH."""
    installed, made = Path(pyspark.__file__).parent, folder / "pyspark"
    _connection(installed, made)
    (made / "version.py").unlink()
    (made / "version.py").write_text(f"__version__: str = {version!r}\n")
    if without:
        inner = Path(without)
        (made / inner.parent).unlink()
        _connection(installed / inner.parent, made / inner.parent)
        (made / inner).unlink()
    return str(folder)


def _connection(source: Path, target: Path) -> None:
    """A folder with links to all that is in the other."""
    target.mkdir(parents=True)
    for one in source.iterdir():
        if one.name != "__pycache__":
            (target / one.name).symlink_to(one)
