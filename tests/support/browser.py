"""A real browser: Debian's Chromium, driven by Playwright; installed if it is missing."""

import functools
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.places import ROOT

# Whatever would call home is off, and the sandbox, which root cannot have.
QUIET_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
WAIT_MS = 30_000


@functools.cache
def chromium() -> str:
    """The program of the browser; installed now if there is none."""
    found = shutil.which("chromium")
    if found is None:
        subprocess.run([ROOT / ".ci" / "need", "chromium"], check=True)
        found = shutil.which("chromium")
    assert found is not None, "Debian's package installs it on the path"
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    """One browser, without a window, that lets no process behind."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET_FLAGS))
        try:
            yield started
        finally:
            started.close()


class Visit:
    """One page in a context of its own, and what it complained about."""

    def __init__(self, browser: Browser, **context: Any) -> None:
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        self._context = browser.new_context(**context)
        self._context.set_default_timeout(WAIT_MS)
        self.page: Page = self._context.new_page()
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._heard)
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def close(self) -> None:
        self._context.close()
