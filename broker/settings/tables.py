"""Listeners and feeds, of which there may be several: parses texts and TOML tables, and back.

    --feed 239.0.0.1:1234,codec=binary      [[feeds]]
                                            group = "239.0.0.1"
                                            port = 1234
                                            codec = "binary"

Both become a dictionary of the given values, each checked alone. `make` makes the settings from it,
and broker/settings/checks.py checks their relations.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from broker.settings.catalog import FEEDS, LISTENERS, BrokerSetting, SettingsTable
from broker.settings.feed_settings import FeedSettings
from broker.settings.settings import Listener
from seriatim.settings.checked import WrongValue, closest, quoted

# The setting that an entry must begin with, and examples.
PLACES = {"listeners": "host", "feeds": "group"}
EXAMPLES = {
    "listeners": "HOST:PORT or HOST:PORT,frame=none",
    "feeds": "GROUP:PORT, such as 239.0.0.1:1234,interface=eth0",
}


def read_entry(table: SettingsTable, text: str) -> dict[str, Any]:
    """Parse one text. Raises `WrongValue`."""
    address, *options = text.split(",")
    place, colon, port = address.rpartition(":")
    first = PLACES[table.path]
    if not colon or not port or not (place or first == "host"):
        raise WrongValue(f"{quoted(text)} is not a {table.noun}; give {EXAMPLES[table.path]}")
    values = {}
    if place:
        values[first] = table.settings[first].read(place)
    values["port"] = table.settings["port"].read(port)
    names = [name for name in table.settings if name not in values and name != first]
    for option in options:
        key, equals, word = option.partition("=")
        if key in values and key not in (first, "port"):
            raise WrongValue(f"{quoted(text)} gives {key}= more than once; give it once")
        if key not in names:
            raise WrongValue(_no_option(table, option, names))
        if not equals:
            raise WrongValue(f"{quoted(option)} has no value; write {key}=VALUE")
        try:
            values[key] = table.settings[key].read(word)
        except WrongValue as wrong:
            raise WrongValue(f"{key}: {wrong}") from None
    return values


def read_tables(
    table: SettingsTable, raw: object, where: str, problems: list[str]
) -> list[dict[str, Any]]:
    """Parse the TOML tables; add their errors to `problems`."""
    if not isinstance(raw, list) or not all(isinstance(entry, dict) for entry in raw):
        problems.append(f"{table.key} {where}: is a list of tables; write [[{table.key}]]")
        return []
    return [
        _read_table(table, entry, f"{table.key}[{at}]", where, problems)
        for at, entry in enumerate(raw, 1)
    ]


def _read_table(
    table: SettingsTable, entry: Mapping[str, object], name: str, where: str, problems: list[str]
) -> dict[str, Any]:
    values = {}
    for key, value in entry.items():
        written = f"{name}.{key} {where}"
        if key not in table.settings:
            close = closest(key, list(table.settings))
            hint = (
                f"did you mean {close}?" if close else f"a {table.noun} has {_all(table.settings)}"
            )
            problems.append(f"{written}: there is no such setting; {hint}")
            continue
        try:
            values[key] = table.settings[key].read_native(value)
        except WrongValue as wrong:
            problems.append(f"{written}: {wrong}")
    for key, setting in table.settings.items():
        if setting.default is dataclasses.MISSING and key not in entry:
            problems.append(f"{name}.{key} {where}: is missing; {setting.how()}")
    return values


def make(table: SettingsTable, values: Mapping[str, Any], frame: str) -> Listener | FeedSettings:
    """Make the settings of one entry; `frame` is the broker's own."""
    if table is LISTENERS:
        return Listener(**{"frame": frame, **values})
    assert table is FEEDS, "there are no other tables"
    return FeedSettings(**values)


def show_entry(table: SettingsTable, entry: Listener | FeedSettings) -> str:
    """Format an entry as text that `read_entry` understands, without defaults."""
    first = PLACES[table.path]
    place = getattr(entry, first)
    shown = f"[{place}]:{entry.port}" if ":" in place else f"{place}:{entry.port}"
    for name, setting in table.settings.items():
        value = getattr(entry, name)
        if name not in (first, "port") and (name == "frame" or value != setting.default):
            shown += f",{name}={setting.show(value)}"
    return shown


def _no_option(table: SettingsTable, option: str, names: list[str]) -> str:
    key = option.partition("=")[0]
    close = closest(key, names)
    if len(names) == 1:
        hint = f"the one there is: {names[0]}=MODE"
    elif close:
        hint = f"did you mean {close}=?"
    else:
        hint = f"those there are: {', '.join(names)}"
    return f"{quoted(option)} is not an option of a {table.noun}; {hint}"


def _all(settings: dict[str, BrokerSetting]) -> str:
    *names, last = settings
    return f"{', '.join(names)} and {last}"
