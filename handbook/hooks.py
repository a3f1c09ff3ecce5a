"""Lets mkdocs follow links out of docs/: to the other pages of the repository, and to its programs.

Pages link to files as forges do, `../CONTRIBUTING.md` or `../examples/account.py`. On the site a
Markdown file becomes a page below `project/`, and a program a page below `source/` that shows it.
Which files these are is found by following the links from docs/. A link that leads nowhere is left
as it is, and `mkdocs build --strict` ends with it. The text of a link that is only the name of a
page becomes the title of that page.
"""

import posixpath
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[([^]]*)\]\((?!https?:|#)([^)\s#]+)")
ROW = re.compile(r"^\|.*$", re.MULTILINE)
CODE = re.compile(r"`[^`]+`")
FILE_NAME = re.compile(r"[\w./-]+\.md")
DOWNLOADED = {".json"}  # too long to be read as a page
SHOWN_AS = {".py": "python", ".service": "ini", ".socket": "ini", ".yml": "yaml", ".toml": "toml"}


def place_of(path: str) -> str:
    """The place of a file of the repository on the site, as a path of mkdocs."""
    file = PurePosixPath(path)
    if file.parts[0] == "docs":
        return str(file.relative_to("docs"))
    if file.suffix == ".md":
        named = file.parent.name if file.stem == "README" and file.parent.name else file.stem
        return f"project/{named.lower()}.md"
    return f"source/{path}" if file.suffix in DOWNLOADED else f"source/{path}.md"


def target_of(link: str, page: str) -> str:
    """The file of the repository that a link of one of its pages names."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def title_of(path: str) -> str:
    """The first heading of a page."""
    found = re.search(r"^# (.+)$", (ROOT / path).read_text(), re.MULTILINE)
    assert found, f"{path} has no title"
    return found[1]


def linked_from(page: str) -> set[str]:
    """The files outside of docs/ that a page names."""
    targets = {target_of(link, page) for _, link in LINK.findall((ROOT / page).read_text())}
    return {one for one in targets if not one.startswith("docs/") and (ROOT / one).is_file()}


def shown(config: MkDocsConfig, path: str) -> File:
    """A file from outside of docs/, as mkdocs takes it."""
    uri, source = place_of(path), ROOT / path
    if path.endswith(".md") or source.suffix in DOWNLOADED:
        return File.generated(config, uri, abs_src_path=str(source))
    language = SHOWN_AS.get(source.suffix, source.suffix.removeprefix("."))
    code = f'````{{ .{language} linenums="1" }}\n{source.read_text()}````\n'
    return File.generated(config, uri, content=f"# {source.name}\n\n`{path}`\n\n{code}")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what the pages link to outside of docs/, and what those link to."""
    docs = Path(config.docs_dir)
    waiting = [str(path.relative_to(ROOT)) for path in docs.rglob("*.md")]
    seen: set[str] = set()
    while waiting:
        new = linked_from(waiting.pop()) - seen
        seen |= new
        waiting += [path for path in new if path.endswith(".md")]
    for path in sorted(seen):
        files.append(shown(config, path))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links between pages of the site."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]
    source = page.file.abs_src_path
    if source is None or not Path(source).is_relative_to(ROOT):
        return markdown
    path, here = str(Path(source).relative_to(ROOT)), posixpath.dirname(page.file.src_uri)

    def on_the_site(link: re.Match[str]) -> str:
        said, target = link[1], target_of(link[2], path)
        if not (ROOT / target).is_file():
            return link[0]
        if FILE_NAME.fullmatch(said):
            said = title_of(target)
        return f"[{said}]({posixpath.relpath(place_of(target), here or '.')}"

    markdown = LINK.sub(on_the_site, markdown)
    # A bar within code in a table: forges want a backslash before it, Python's Markdown shows it.
    return ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), markdown)
