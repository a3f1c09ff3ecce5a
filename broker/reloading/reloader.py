"""SIGHUP: reads the settings again from their sources, and applies the changes.

Wrong settings change nothing, nor do settings that would open a closed broker. Otherwise each
change is logged: it has taken effect, or it has failed or needs a restart, and the old value stays.
`Server.settings` are always those in effect.
"""

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from broker.reloading.reloadable import ALWAYS, RELOADABLE, Apply
from broker.server import Server
from broker.settings.catalog import SECTIONS, SETTINGS, TABLES
from broker.settings.errors import WrongSettings
from broker.settings.resolve import resolve
from broker.settings.security_warnings import insecure
from broker.settings.settings import Settings
from broker.settings.sources import Sources
from broker.settings.tables import show_entry

log = logging.getLogger("seriatim")

# Not in the catalog: they are tables, and have no flags.
USERS = ("authorization.users", "authorization.default_permissions")
PATHS = (*SETTINGS, *TABLES, *USERS)


class Reloader:
    """The reload of the settings at a SIGHUP, in the broker's one thread."""

    def __init__(self, server: Server, sources: Sources) -> None:
        self._server = server
        self._sources = sources

    def reload(self, environment: Mapping[str, str] = os.environ) -> None:
        """Read the settings again, apply the changes, and log the result of each."""
        try:
            wanted = resolve(self._sources.flags, environment, self._sources.config).settings
        except WrongSettings as wrong:
            for problem in wrong.problems:
                log.error("Cannot reload: %s", problem)
            log.error("Nothing is reloaded: all settings stay as they were")
            return
        before = self._server.settings
        if (opened := opened_by(before, wanted)) and not wanted.authorization.allow_open_reload:
            log.error(
                "Cannot reload: %s. Is the file whole? If you want this, set"
                " authorization.allow_open_reload, or restart the broker",
                opened,
            )
            log.error("Nothing is reloaded: all settings stay as they were")
            return
        changed = [path for path in PATHS if value_at(wanted, path) != value_at(before, path)]
        can = [path for path in changed if path in RELOADABLE]
        self._server.core.change(merged(before, wanted, can))
        failed = self._apply(can)
        taken = [path for path in can if path not in failed]
        self._server.core.change(merged(before, wanted, taken))
        for why in dict.fromkeys(failed.values()):
            paths = [path for path in failed if failed[path] == why]
            still = f"still {shown(before, paths[0])}" if len(paths) == 1 else "all as before"
            log.error("Cannot reload: %s: %s (%s)", ", ".join(paths), why, still)
        for path in taken:
            log.info("Reloaded: %s = %s", path, shown(wanted, path))
        for path in changed:
            if path not in RELOADABLE:
                still = shown(before, path)
                log.warning("Cannot reload: %s needs a restart (still %s)", path, still)
        known = insecure(before)
        for line in insecure(self._server.settings):
            if line not in known:
                log.warning("Insecure: %s", line)
        self._server.config_loaded_at = time.time()
        but = f", but for {', '.join(failed)}" if failed else ""
        log.info("Reloaded server configuration%s", but)

    def _apply(self, can: list[str]) -> dict[str, str]:
        """Apply the changes that are in the settings now; return errors of those that failed."""
        settings = self._server.settings
        paths = dict.fromkeys([*(one for one in ALWAYS if value_at(settings, one)), *can])
        reasons: dict[Apply, str] = {}
        for apply in dict.fromkeys(RELOADABLE[path] for path in paths):
            try:
                apply(self._server, settings)
            except OSError as error:
                reasons[apply] = str(error)
        return {path: reasons[RELOADABLE[path]] for path in paths if RELOADABLE[path] in reasons}


def opened_by(before: Settings, wanted: Settings) -> str:
    """Return how a reload would end authentication: for clients, or for monitoring; else empty."""

    def asks_clients(settings: Settings) -> bool:
        return settings.authorization.is_required or settings.tls.is_verifying

    if asks_clients(before) and not asks_clients(wanted):
        return "there would be no users any more, so everybody could read and publish everything"
    monitored = before.http_port or before.https_port
    if monitored and before.http_user and not wanted.http_user:
        return "there would be no http_user any more, so everybody could read the monitoring pages"
    return ""


def merged(before: Settings, wanted: Settings, paths: list[str]) -> Settings:
    """Return `before` with the values of `wanted` at these paths."""
    made = before
    for section in SECTIONS:
        own = {
            path.rpartition(".")[2]: value_at(wanted, path)
            for path in paths
            if path.rpartition(".")[0] == section
        }
        if own and section:
            made = replace(made, **{section: replace(getattr(made, section), **own)})
        elif own:
            made = replace(made, **own)
    return made


def value_at(settings: Settings, path: str) -> Any:
    """Return the value of the setting, or table, at this path."""
    found: Any = settings
    for name in path.split("."):
        found = getattr(found, name)
    return found


def shown(settings: Settings, path: str) -> str:
    """Return the value of a setting as text, without secrets."""
    value = value_at(settings, path)
    if path in TABLES:
        return " ".join(show_entry(TABLES[path], one) for one in value) or "none"
    if path in USERS:
        count = len(value) if isinstance(value, tuple) else int(value is not None)
        return f"{count} given" if count else "none"
    return SETTINGS[path].show(value) or '""'
