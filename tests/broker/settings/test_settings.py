"""The table of settings: complete, consistent, and unchanged when passed to the broker."""

import dataclasses
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.settings import settings as table
from broker.settings.authorization_settings import (
    AuthorizationSettings,
    PermissionSettings,
    UserSettings,
)
from broker.settings.catalog import FEEDS, LISTENERS, SETTINGS, USER_SETTINGS, BrokerSetting
from broker.settings.cluster_settings import ClusterSettings
from broker.settings.feed_settings import FeedSettings
from broker.settings.journal_settings import JournalSettings
from broker.settings.limits_settings import Limits
from broker.settings.settings import (
    FRAMES,
    Listener,
    SequencerSettings,
    Settings,
    settings_from_json,
    settings_to_json,
)
from broker.settings.staging_settings import StagingSettings
from broker.settings.stream_settings import StreamSettings
from broker.settings.tls_settings import BrokerTlsSettings
from broker.settings.websocket_settings import WebSocketSettings
from seriatim.settings.setting import GIB, KIB, MIB

ALL = [*SETTINGS.values(), *LISTENERS.settings.values(), *FEEDS.settings.values()]
NUMBERS = ("size", "duration", "count", "port")


def any_value(setting: BrokerSetting) -> st.SearchStrategy[Any]:
    """Values that the setting may have."""
    match setting.kind:
        case "duration":
            return st.floats(setting.low, setting.high)
        case "size" | "count" | "port":
            assert setting.low is not None
            assert setting.high is not None
            return st.integers(int(setting.low), int(setting.high))
        case "choice":
            return st.sampled_from(setting.choices)
        case "flag":
            return st.booleans()
        case "list" | "endpoints" | "origins" | "pins" | "networks":
            return st.lists(st.text(), max_size=3).map(tuple)
    return st.text()


def any_of(kind: type, settings: dict[str, BrokerSetting], **more: Any) -> st.SearchStrategy[Any]:
    return st.builds(
        kind, **{name: any_value(setting) for name, setting in settings.items()}, **more
    )


def section(name: str) -> dict[str, BrokerSetting]:
    return {setting.name: setting for setting in SETTINGS.values() if setting.section == name}


subjects = st.lists(st.text(), max_size=3).map(tuple)
any_permissions = st.none() | st.builds(
    PermissionSettings,
    publish_allow=st.none() | subjects,
    publish_deny=subjects,
    subscribe_allow=st.none() | subjects,
    subscribe_deny=subjects,
    responses=st.integers(-1, 5),
    response_expires=st.floats(0, 100),
)
any_user = any_of(UserSettings, USER_SETTINGS, permissions=any_permissions)
any_settings = any_of(
    Settings,
    section(""),
    authorization=any_of(
        AuthorizationSettings,
        section("authorization"),
        users=st.lists(any_user, max_size=2).map(tuple),
        default_permissions=any_permissions,
    ),
    tls=any_of(BrokerTlsSettings, section("tls")),
    websocket=any_of(WebSocketSettings, section("websocket")),
    listeners=st.lists(any_of(Listener, LISTENERS.settings), max_size=2).map(tuple),
    feeds=st.lists(any_of(FeedSettings, FEEDS.settings), max_size=2).map(tuple),
    cluster=any_of(ClusterSettings, section("cluster")),
    limits=any_of(Limits, section("limits")),
    sequencer=any_of(SequencerSettings, section("sequencer")),
    journal=any_of(JournalSettings, section("journal")),
    staging=any_of(StagingSettings, section("staging")),
    streams=any_of(StreamSettings, section("streams")),
)


@pytest.mark.parametrize("setting", ALL, ids=lambda setting: setting.path)
def test_given_a_setting_when_read_then_it_says_what_it_is_for(setting: BrokerSetting) -> None:
    assert setting.about.endswith(".")
    assert (setting.low is not None) == (setting.kind in NUMBERS), (
        "numbers have bounds, and only they"
    )
    assert bool(setting.choices) == (setting.kind == "choice")
    assert not setting.zero.endswith(".")


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.path)
def test_given_a_setting_when_read_then_its_default_is_allowed(setting: BrokerSetting) -> None:
    if setting.low is not None and setting.high is not None:
        assert setting.low <= setting.default <= setting.high
    if setting.choices:
        assert setting.default in setting.choices


def test_given_all_settings_when_compared_then_no_two_share_a_flag_or_a_variable() -> None:
    flags = [flag for setting in SETTINGS.values() for flag in setting.flags]
    assert len(flags) == len(set(flags))
    assert all(
        setting.flags and setting.flags[-1].startswith("--") for setting in SETTINGS.values()
    )
    assert len({setting.variable for setting in SETTINGS.values()}) == len(SETTINGS)


def test_given_the_table_when_counted_then_every_field_is_a_setting() -> None:
    tables = (
        Settings,
        AuthorizationSettings,
        BrokerTlsSettings,
        ClusterSettings,
        JournalSettings,
        Limits,
        SequencerSettings,
        StagingSettings,
        StreamSettings,
        WebSocketSettings,
    )
    fields = [field for table in tables for field in dataclasses.fields(table)]
    groups = {"authorization", "cluster", "feeds", "journal", "listeners", "limits", "sequencer"}
    groups |= {"staging", "streams", "users", "default_permissions", "websocket"}
    assert {f.name for f in fields} - groups == {one.name for one in SETTINGS.values()}


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("host", "0.0.0.0"),
        ("port", 4222),
        ("limits.max_payload", 1048576),
        ("limits.max_control_line", 4096),
        ("limits.max_connections", 65536),
        ("limits.max_pending", 64 << 20),
        ("limits.write_deadline", 10.0),
        ("limits.ping_interval", 120.0),
        ("limits.ping_max", 2),
    ],
)
def test_given_nothing_when_started_then_the_defaults_are_those_of_nats_server(
    path: str, default: object
) -> None:
    assert SETTINGS[path].default == default


@pytest.mark.parametrize(
    ("retain", "asked", "limit"),
    [
        (0, 256 * MIB, 256 * MIB),
        (10 * GIB, 256 * MIB, 256 * MIB),
        (1 * GIB, 256 * MIB, 256 * MIB),
        (100 * MIB, 256 * MIB, 25 * MIB),
        (100 * MIB, 1 * MIB, 1 * MIB),
        (1, 256 * MIB, 64 * KIB),
    ],
)
def test_given_a_journal_of_limited_size_when_rolled_then_it_is_several_segments(
    retain: int, asked: int, limit: int
) -> None:
    assert JournalSettings(retain_bytes=retain, segment_bytes=asked).segment_limit == limit


def test_given_settings_when_changed_then_refused() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().port = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        Listener()
    assert Listener(port=1).frame == FRAMES[0]


@given(any_settings)
def test_given_any_settings_when_sent_as_json_then_they_arrive_the_same(settings: Settings) -> None:
    text = settings_to_json(settings)
    assert settings_from_json(text) == settings_from_json(text.encode()) == settings
    assert "\n" not in text


def test_given_the_broker_when_it_imports_the_table_then_nothing_heavy_comes_along() -> None:
    code = "import asyncio, sys; before = set(sys.modules); import broker.settings.settings;"
    code += "print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    roots = {name.partition(".")[0] for name in loaded}
    ours = {name for name in loaded if name.startswith("seriatim.")}
    needed = ("", ".frozen_fields", ".setting")
    assert ours == {f"seriatim.settings{name}" for name in needed}
    allowed = {"broker", "seriatim", "cython", "dataclasses", "json", "_json", "copy", "copyreg"}
    assert roots <= allowed
    assert table.__doc__
