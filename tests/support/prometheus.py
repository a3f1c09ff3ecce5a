"""A real Prometheus, Debian's, and what it says of a broker."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.places import ROOT
from tests.support.processes import ServerProcess
from tests.support.web import get, http_port

TOOLS = ROOT / "build" / "prometheus"
DEPLOY = ROOT / "deploy" / "prometheus"
WAIT_S = 60.0


def from_debian() -> str:
    """Unpack Debian's package beside the build; why it cannot be, or nothing.

    Unpacked, not installed: no service of the machine is started or changed.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return "prometheus is not installed, and this is no Debian to fetch it from"
    TOOLS.mkdir(parents=True, exist_ok=True)
    for command in (["apt-get", "download", "prometheus"], ["apt-get", "update", "--quiet"]):
        done = subprocess.run(command, cwd=TOOLS, capture_output=True, text=True, check=False)
        if done.returncode == 0 and command[1] == "download":
            break
        if done.returncode == 0:
            subprocess.run(["apt-get", "download", "prometheus"], cwd=TOOLS, check=False)
    packages = sorted(TOOLS.glob("prometheus_*.deb"))
    if not packages:
        return f"prometheus is not installed, and cannot be fetched: {done.stderr.strip()[-200:]}"
    subprocess.run(["dpkg-deb", "-x", str(packages[-1]), str(TOOLS)], check=True)
    return ""


def tools_of_debian() -> dict[str, str]:
    """Where `prometheus` and `promtool` are; skip what cannot be had."""
    found = {name: shutil.which(name) for name in ("prometheus", "promtool")}
    if not all(found.values()):
        unpacked = TOOLS / "usr" / "bin"
        reason = "" if (unpacked / "promtool").exists() else from_debian()
        if reason:
            pytest.skip(reason)
        found = {name: str(unpacked / name) for name in found}
    return {name: str(path) for name, path in found.items()}


def run(*command: str, stdin: bytes = b"") -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=WAIT_S)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def ask(port: int, path: str) -> Any:
    """What Prometheus' API says; nothing while it does not answer yet."""
    try:
        page = get(port, path)
    except OSError:
        return None
    return json.loads(page.body) if page.status == 200 else None


def result_of(port: int, query: str) -> list[Any]:
    """The series of a query, which must be valid; none while Prometheus does not answer yet."""
    try:
        page = get(port, f"/api/v1/query?query={quote(query)}")
    except OSError:
        return []
    assert page.status != 400, page.body
    return list(json.loads(page.body)["data"]["result"]) if page.status == 200 else []


def await_query(port: int, query: str, wanted: str) -> list[Any]:
    """Ask Prometheus until the query has the value. It scrapes every second."""
    deadline = time.monotonic() + WAIT_S
    pause = 0.05
    while time.monotonic() < deadline:
        result = result_of(port, query)
        if result and result[0]["value"][1] == wanted:
            return result
        time.sleep(pause)  # another program's state: there is no event to await
        pause = min(2 * pause, 0.5)
    raise AssertionError(f"{query} did not become {wanted}: {result}")


@contextmanager
def scraping(
    tools: dict[str, str], folder: Path, broker: ServerProcess, more: str = ""
) -> Iterator[int]:
    """Prometheus with our configuration and `more` of it, made to scrape every second; its port."""
    config = (DEPLOY / "prometheus.yml").read_text()
    assert "127.0.0.1:8222" in config
    config = config.replace("127.0.0.1:8222", f"127.0.0.1:{http_port(broker)}")
    assert config.count("  - job_name: seriatim\n") == 1
    config = config.replace("  - job_name: seriatim\n", f"  - job_name: seriatim\n{more}")
    (folder / "prometheus.yml").write_text(config.replace("15s", "1s"))
    for rules in ("alerts.yml", "rules.yml"):
        shutil.copy(DEPLOY / rules, folder)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                tools["prometheus"],
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                "--web.listen-address=127.0.0.1:0",
                f"--web.console.templates={DEPLOY}/consoles",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield port_said_in(folder / "log", process)
    finally:
        process.terminate()
        process.wait(WAIT_S)


def port_said_in(log: Path, process: "subprocess.Popen[bytes]") -> int:
    """Wait until Prometheus says where it listens."""
    while not (found := re.search(r'"Listening on" address=127\.0\.0\.1:(\d+)', log.read_text())):
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)  # no event to await: a file tells nobody that it has grown
    return int(found[1])
