"""docs/configuration.md is what the command writes: the page and the table cannot drift apart."""

from broker.settings.catalog import SETTINGS
from broker.settings.resolve import resolve
from seriatim.cli.explain import FIRST_SETTINGS, as_markdown
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "configuration.md"


def test_given_the_table_when_written_as_a_page_then_it_is_the_one_in_the_docs() -> None:
    written = as_markdown(resolve({}, {}))
    assert PAGE.read_text() == written, (
        "write it again: env -i .venv/bin/seriatim config --format markdown > docs/configuration.md"
    )


def test_given_every_setting_when_looked_up_then_the_page_has_its_three_names() -> None:
    page = PAGE.read_text()
    for setting in SETTINGS.values():
        assert f"### `{setting.path}`\n" in page
        assert f"`{setting.variable}`" in page
        assert all(f"`{flag}`" in page for flag in setting.flags)


def test_given_changed_settings_when_written_as_a_page_then_it_lists_them() -> None:
    page = as_markdown(resolve({"port": "5", "listeners": ["h:1"]}, {"SERIATIM_DEBUG": "1"}))
    assert "| `port` | `5` | `--port` |" in page
    assert "| `debug` | `true` | `SERIATIM_DEBUG` |" in page
    assert "| `listeners` | `h:1,frame=netstring` | `--listen` |" in page


def test_given_the_page_then_it_begins_with_twelve_settings_that_people_use() -> None:
    first = PAGE.read_text().split("\n## ")[1]
    assert first.startswith("Twelve to begin with\n")
    assert len(FIRST_SETTINGS) == 12
    for path in FIRST_SETTINGS:
        assert SETTINGS[path].common
        assert f"| [`{path}`](#" in first
