"""The files of the live page. They are read when they are first asked for."""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final, NamedTuple

# Scripts and styles come from here alone, and nothing may show the page in a frame. So even a name
# that got into the page as markup could load nothing, run nothing and send nothing.
SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
ASSETS: Final = {
    "/": "index.html",
    **{
        f"/page/{name}": name
        for name in (
            *("page.css", "icon.svg", "main.js", "dom.js", "text.js", "feed.js", "charts.js"),
            *("overview.js", "tables.js", "connections.js", "streams.js", "subjects.js"),
            *("journal.js", "messages.js", "frame.js", "cluster.js"),
            *("vendor/uplot.js", "vendor/uplot.css"),
        )
    },
}


class Asset(NamedTuple):
    """One file, as it is sent. Its tag changes with its content."""

    kind: str
    tag: str
    content: bytes


@cache
def asset(path: str) -> Asset:
    """Read the file of a path in `ASSETS`."""
    name = ASSETS[path]
    content = (files("broker.monitor.page") / "static" / name).read_bytes()
    return Asset(KINDS[name.rpartition(".")[2]], f'"{sha256(content).hexdigest()[:20]}"', content)
