"""The npm package as a user has it: packed, and installed beside the NATS clients."""

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

from tests.clients.conftest import FOLDER
from tests.support.places import ROOT

PACKAGE = ROOT / "packages" / "seriatim-js"
SCRIPTS = ROOT / "tests" / "packages" / "seriatim_js"
LINKED = ("nats", "@nats-io", "@types")  # their own modules are found where they are
PACK_S = 120


def packed(into: Path) -> tuple[Path, list[str]]:
    """Make the package's archive; return it, and the names of the files in it."""
    done = subprocess.run(
        ["npm", "pack", "--json", "--pack-destination", str(into)],
        cwd=PACKAGE,
        capture_output=True,
        text=True,
        timeout=PACK_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    (made,) = said.values() if isinstance(said, dict) else said
    return into / made["filename"], sorted(one["path"] for one in made["files"])


def lay(archive: Path, folder: Path) -> None:
    """Install the archive into a folder, together with the test scripts."""
    modules = folder / "node_modules"
    modules.mkdir()
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (folder / "package").rename(modules / "seriatim")
    for name in LINKED:
        (modules / name).symlink_to(FOLDER / "node_modules" / name)
    for script in SCRIPTS.iterdir():
        shutil.copy2(script, folder)
