"""Reports what is installed: Seriatim and its build, Python, optional packages, the system."""

import platform
import re
import ssl
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Final

from seriatim.cli.check.check_results import CheckResult
from seriatim.cli.doctor.examination import Patient, failed, hint, ok, warning
from seriatim.cli.errors import CliError
from seriatim.cli.version_command import facts

# A package, the extra that installs it, and what it is for.
OPTIONAL: Final = (
    ("uvloop", "uvloop", "--loop uvloop"),
    ("aiohttp", "cluster", "a member of a cluster"),
    ("pyarrow", "parquet", "journal export to Parquet"),
    ("pyspark", "spark", "Spark"),
    ("deltalake", "delta", "Delta Lake"),
    ("pyiceberg", "iceberg", "Iceberg"),
)
INSTALL_AGAIN: Final = "install it again with gcc and Python's headers (python3-dev)"


def build() -> Iterator[CheckResult]:
    """Report the versions of Seriatim and Python, and whether the hot modules are compiled."""
    try:
        known = facts()
    except CliError as error:
        yield failed(
            "seriatim", str(error), "compiled and uncompiled objects do not mix", INSTALL_AGAIN
        )
        return
    text = f"{known['seriatim']}, {known['build']}, on {known['python']}"
    if known["build"] == "compiled":
        yield ok("seriatim", text)
    else:
        yield warning("seriatim", text, "it is some 50 times slower uncompiled", INSTALL_AGAIN)
    if sys.flags.optimize:
        yield failed(
            "python",
            f"optimises (-O, PYTHONOPTIMIZE={sys.flags.optimize})",
            "assertions guard the order, so the broker does not start",
            "leave out -O and PYTHONOPTIMIZE",
        )


def system() -> Iterator[CheckResult]:
    """Report the kernel, and OpenSSL."""
    yield ok("system", f"{platform.system()} {platform.release()}, {ssl.OPENSSL_VERSION}")


def packages(patient: Patient) -> Iterator[CheckResult]:
    """Report the packages that Seriatim needs, and the optional ones that the settings need."""
    there, missing = _versions(_needed())
    if there:
        yield ok("packages", f"needed: {', '.join(there)}")
    for name in missing:
        yield failed(
            "packages",
            f"{name} is not installed",
            "Seriatim needs it: commands fail, or the broker does when it uses it",
            f"pip install {name}",
        )
    there, missing = _versions(name for name, _, _ in OPTIONAL)
    absent = [f"{name} ({purpose})" for name, _, purpose in OPTIONAL if name in missing]
    yield ok(
        "packages",
        f"optional: {', '.join(there) or 'none'}"
        + (f"; not installed: {', '.join(absent)}" if absent else ""),
    )
    if "aiohttp" in missing and patient.settings.cluster.name:
        yield failed(
            "packages",
            "aiohttp is not installed, and cluster.name is set",
            "a member asks etcd by it, and does not start",
            "pip install 'seriatim[cluster]'",
        )
    if "uvloop" in missing and patient.settings.loop == "uvloop":
        yield hint(
            "packages",
            "uvloop is not installed, and loop is uvloop",
            "the broker uses asyncio instead",
            "pip install 'seriatim[uvloop]', or leave out --loop uvloop",
        )


def _needed() -> list[str]:
    """The packages that Seriatim's own metadata names, without those of extras; none without it."""
    try:
        wanted = [one for one in metadata.requires("seriatim") or () if "extra ==" not in one]
    except metadata.PackageNotFoundError:  # it runs from its sources
        return []
    return sorted(re.split(r"[^\w.-]", one, maxsplit=1)[0] for one in wanted)


def _versions(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """The packages that are there, with their versions, and those that are not."""
    there, missing = [], []
    for name in names:
        try:
            there.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    return there, missing
