"""`python -m handbook`: writes the pages that are made from the code again."""

from pathlib import Path

from handbook import cli_reference, python_reference

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = {"commands.md": cli_reference.page, "python.md": python_reference.page}


def main() -> None:
    for name, made in PAGES.items():
        (DOCS / name).write_text(made())


if __name__ == "__main__":
    main()
