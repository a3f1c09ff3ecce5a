"""The settings of `broker.settings.settings` as users see them: path, flag, variable and text.

    path       limits.max_payload           in the TOML file
    variable   SERIATIM_LIMITS_MAX_PAYLOAD  in the environment
    flags      --max_payload                on the command line, the last one is the long name

Nothing is written twice: everything comes from the fields' metadata. Listeners and feeds, of
which there may be several, are `TABLES`.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from broker.settings.authorization_settings import AuthorizationSettings, UserSettings
from broker.settings.cluster_settings import ClusterSettings
from broker.settings.feed_settings import FeedSettings
from broker.settings.journal_settings import JournalSettings
from broker.settings.limits_settings import Limits
from broker.settings.network_kinds import (
    ADDRESS,
    ADVERTISED,
    CODEC,
    ENDPOINTS,
    GROUP,
    HEADER,
    HOST,
    INTERFACE,
    NAME,
    NETWORKS,
    ORIGINS,
    PINS,
    PORT,
)
from broker.settings.settings import Listener, SequencerSettings, Settings
from broker.settings.staging_settings import StagingSettings
from broker.settings.stream_settings import StreamSettings
from broker.settings.tls_settings import BrokerTlsSettings
from broker.settings.websocket_settings import WebSocketSettings
from seriatim.settings.amounts import COUNT, DURATION, SIZE
from seriatim.settings.checked import CHOICE, FLAG, TEXT, Setting, SettingKind
from seriatim.settings.secret_texts import SECRET
from seriatim.settings.subjects import LIST, PATTERN, SUBJECT

PREFIX = "SERIATIM_"
SECTIONS: dict[str, type] = {
    "": Settings,
    "authorization": AuthorizationSettings,
    "cluster": ClusterSettings,
    "journal": JournalSettings,
    "limits": Limits,
    "sequencer": SequencerSettings,
    "staging": StagingSettings,
    "streams": StreamSettings,
    "tls": BrokerTlsSettings,
    "websocket": WebSocketSettings,
}


KINDS: dict[str, SettingKind] = {
    "text": TEXT,
    "secret": SECRET,  # text that no output shows
    "choice": CHOICE,
    "flag": FLAG,
    "size": SIZE,
    "duration": DURATION,
    "count": COUNT,
    "list": LIST,  # of subjects
    "subject": SUBJECT,
    "pattern": PATTERN,  # a subject with wildcards
    "port": PORT,
    "host": HOST,
    "address": ADDRESS,  # HOST:PORT
    "advertised": ADVERTISED,  # HOST or HOST:PORT
    "endpoints": ENDPOINTS,  # of etcd
    "origins": ORIGINS,  # of web pages
    "pins": PINS,  # of certificates
    "networks": NETWORKS,
    "header": HEADER,  # of HTTP
    "name": NAME,  # of a cluster
    "group": GROUP,  # a multicast address
    "interface": INTERFACE,
    "codec": CODEC,
}


# Kinds whose flag may be given several times.
LIST_KINDS = ("list", "endpoints", "origins", "pins", "networks")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSetting(Setting):
    """A setting of the broker, and its names: in the file, in the environment, as a flag."""

    kinds: ClassVar[Mapping[str, SettingKind]] = KINDS

    path: str
    zero: str = ""  # what 0 (or an empty text) means, if that is not obvious
    flags: tuple[str, ...] = ()  # its names on the command line
    reload: bool = False  # SIGHUP is enough; listeners, files, identities and memory need a restart
    common: bool = False  # one that people set: shown without --all

    @property
    def section(self) -> str:
        """The TOML table that it is in; empty for the top level."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """The key in that table."""
        return self.path.rpartition(".")[2]

    @property
    def variable(self) -> str:
        """The environment variable of the setting."""
        return PREFIX + self.path.upper().replace(".", "_")

    @property
    def parameter(self) -> str:
        """The name of the setting as a parameter of a function."""
        return self.path.replace(".", "_")

    @property
    def flag(self) -> str:
        """The long flag of the setting."""
        return self.flags[-1]


def _setting(path: str, field: "dataclasses.Field[Any]") -> BrokerSetting:
    return BrokerSetting(path=path, default=field.default, **field.metadata)


def _settings() -> dict[str, BrokerSetting]:
    found = {}
    for section, table in SECTIONS.items():
        for field in dataclasses.fields(table):
            if field.metadata:
                path = f"{section}.{field.name}" if section else field.name
                found[path] = _setting(path, field)
    return found


SETTINGS = _settings()

# Settings of earlier builds whose value is fixed now: by path, the value.
FIXED: dict[str, str] = {
    "cluster.copy_rate": "128MiB",
    "cluster.forward_bytes": "16MiB",
    "cluster.near_bytes": "4MiB",
    "cluster.pulse": "100ms",
    "cluster.rank": "250ms",
    "limits.hold_pending": "1MiB",
    "limits.max_last_replays": "4",
    "limits.max_match_nodes": "8192",
    "limits.max_reads": "4",
    "limits.receive_buffer": "512KiB",
    "limits.reserved_files": "64",
    "staging.address_kept": "1 %",
    "websocket.max_header": "16KiB",
    "websocket.max_unfinished": "256MiB",
}


def fixed_words(path: str) -> str:
    """Explain to someone who sets it that such a setting is fixed now; empty for all others."""
    value = FIXED.get(path)
    return f"cannot be set any more, and is always {value}; leave it out" if value else ""


@dataclass(frozen=True, slots=True)
class SettingsTable:
    """Listeners or feeds: several entries, each a TOML table or a text."""

    path: str  # the field of `Settings`
    key: str  # in the file
    flag: str
    form: str  # of one text
    title: str
    about: str
    settings: dict[str, BrokerSetting]

    @property
    def variable(self) -> str:
        """The environment variable for several texts, with blanks between them."""
        return PREFIX + self.flag[2:].upper()

    @property
    def noun(self) -> str:
        """The word for one entry."""
        return self.path[:-1]


def _table_settings(kind: type, key: str) -> dict[str, BrokerSetting]:
    return {
        field.name: _setting(f"{key}.{field.name}", field)
        for field in dataclasses.fields(kind)
        if field.metadata
    }


LISTENERS = SettingsTable(
    path="listeners",
    key="listener",
    flag="--listen",
    form="HOST:PORT[,frame=MODE]",
    title="More listeners",
    about="One more address to listen on, with a frame of its own. May be given several times."
    " Without a frame it has the broker's `frame`.",
    settings=_table_settings(Listener, "listener"),
)
FEEDS = SettingsTable(
    path="feeds",
    key="feeds",
    flag="--feed",
    form="GROUP:PORT[,key=value...]",
    title="Feeds",
    about="One more multicast group to which all numbered messages are sent. May be given several"
    " times. docs/multicast.md explains feeds.",
    settings=_table_settings(FeedSettings, "feeds"),
)
TABLES = {table.path: table for table in (LISTENERS, FEEDS)}
USER_SETTINGS = _table_settings(UserSettings, "authorization.users")
