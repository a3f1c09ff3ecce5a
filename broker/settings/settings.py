"""Every setting of the broker: its name, kind, default, bounds and reason, in one table.

A setting is a field, as seriatim/settings/setting.py says; those of the journal, the feeds and
staging stand in journal_settings.py, feed_settings.py and staging_settings.py.

The running broker imports this module, so it imports nothing that asyncio does not, and it
checks nothing: what comes through `settings_from_json` was checked by the process before.
"""

import dataclasses
import json
from dataclasses import dataclass

from broker.settings.feed_settings import FeedSettings
from broker.settings.journal_settings import JournalSettings
from broker.settings.staging_settings import StagingSettings
from seriatim.settings.setting import GIB, KIB, MIB, setting

FRAMES = ("netstring", "header", "none")
LOOPS = ("auto", "asyncio", "uvloop")
FRAMINGS = ("recv", "netstring")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One more address to listen on, with a frame of its own."""

    host: str = setting(
        "0.0.0.0",
        "host",
        "The address to listen on. Every interface by default, as the first listener.",
    )
    port: int = setting(
        dataclasses.MISSING,
        "port",
        "The port to listen on. It has no default: two listeners cannot share one address.",
        bounds=(-1, 65535),
        zero="-1: any free port",
    )
    frame: str = setting(
        "netstring",
        "choice",
        "What a payload is delivered in here. The broker's own `frame` when not given.",
        choices=FRAMES,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one peer may ask of us, and how long we wait for it."""

    max_payload: int = setting(
        1 * MIB,
        "size",
        "The largest message accepted, headers included. NATS' default: clients read it from"
        " INFO and split or refuse what is larger.",
        flags=("--max_payload",),
        bounds=(1, 64 * MIB),
    )
    max_control_line: int = setting(
        4 * KIB,
        "size",
        "The longest protocol line accepted, without a payload. NATS' default; a subject, a"
        " reply and a size are far shorter. CONNECT is such a line: many clients send 200 bytes"
        " and more.",
        flags=("--max_control_line",),
        bounds=(256, 64 * KIB),
    )
    max_connections: int = setting(
        65536,
        "count",
        "How many clients may be connected at once. NATS' default; the limit of open files"
        " (ulimit -n) is often reached first: then new ones wait.",
        flags=("--max_connections",),
        bounds=(1, 1_000_000),
    )
    reserved_files: int = setting(
        64,
        "count",
        "How many of the files that the system lets us have open (ulimit -n) are for no client:"
        " the journal, staging, monitoring and the log need some 40. At most half of them. When"
        " clients have all others, new ones wait.",
        flags=("--reserved_files",),
        bounds=(0, 100_000),
    )
    max_subscriptions: int = setting(
        0,
        "count",
        "How many subscriptions one connection may have. No limit by default, as NATS: what a"
        " service needs is not known here.",
        flags=("--max_subscriptions",),
        bounds=(0, 100_000_000),
        zero="0: no limit",
    )
    max_match_nodes: int = setting(
        8192,
        "count",
        "Through how many nodes of the tree of wildcard subscriptions one message may lead."
        " A pattern of more than 10 tokens with which that could be more is refused: in all"
        " combinations of `a` and `*`, each token doubles it. Usual patterns stay far below a"
        " hundred, however many there are; 8192 take some 5 ms, in which nobody else is served.",
        flags=("--max_match_nodes",),
        bounds=(0, 100_000_000),
        zero="0: no limit",
    )
    max_matches: int = setting(
        16384,
        "count",
        "How many subscriptions of one connection one message may match; each member of a queue"
        " group counts. One more is refused. All deliveries of a message are made in one turn, in"
        " which nobody else is served: with a million subscriptions to one subject each message"
        " took a quarter of a second. Any number of subscriptions to different subjects is fine.",
        flags=("--max_matches",),
        bounds=(0, 100_000_000),
        zero="0: no limit",
    )
    max_pending: int = setting(
        64 * MIB,
        "size",
        "How many unsent bytes a subscriber may have before it is a slow consumer and is closed."
        " With a journal only answers and excluded subjects can come to so much: of messages with"
        " a number no more than `limits.catchup_pending` waits, the journal has the rest. NATS'"
        " default: it outlasts a pause of half a second at 1 Gbit/s.",
        flags=("--max_pending",),
        bounds=(4 * KIB, 16 * GIB),
    )
    max_pending_total: int = setting(
        512 * MIB,
        "size",
        "How many unsent bytes all subscribers may have together. Above it the journal serves"
        " those that lag; without one, the one with the most is a slow consumer and is closed."
        " Eight times the default of one alone: a crowd of dead readers must not take the machine.",
        flags=("--max_pending_total",),
        bounds=(0, 1 << 44),
        zero="0: no limit",
    )
    hold_pending: int = setting(
        1 * MIB,
        "size",
        "Without a journal, a subscriber with more unsent bytes than this briefly holds the"
        " publishers that feed it. 1 MiB is more than a healthy reader ever has unsent, and small"
        " enough to stay in the processor's cache.",
        flags=("--hold_pending",),
        bounds=(4 * KIB, 16 * GIB),
    )
    hold_ms: int = setting(
        100,
        "count",
        "For how many milliseconds such a subscriber may hold publishers. Then it holds nobody"
        " until it has drained, so that a dead subscriber cannot stall a publisher; 100 ms is a"
        " long pause for a live one.",
        flags=("--hold_ms",),
        bounds=(0, 60_000),
        zero="0: publishers are never held",
    )
    catchup_pending: int = setting(
        1 * MIB,
        "size",
        "With a journal, a subscriber with more unsent bytes than this is served from there, as"
        " fast as it reads, until it has caught up; nobody waits for it. More than a healthy reader"
        " ever has unsent; it bounds the memory that a slow one costs.",
        flags=("--catchup_pending",),
        bounds=(4 * KIB, 16 * GIB),
    )
    answers_pending: int = setting(
        512 * MIB,
        "size",
        "How much memory `$SEQ.READ` and `$SEQ.LAST` may take in all, of all connections: a quarter"
        " for chunks that are gathered or not taken yet, the rest for subjects that are looked for."
        " A request that needs more waits until others have given back. Two million subjects at a"
        " time, and some 300 reads whose clients take nothing.",
        flags=("--answers_pending",),
        bounds=(8 * MIB, 1 << 40),
    )
    write_deadline: float = setting(
        10.0,
        "duration",
        "Without a journal, how long a subscriber may take none of what we write before it is a"
        " slow consumer and is closed. With one it is not closed for that: it is served from the"
        " journal when it reads again, and PINGs find out whether it is alive. With and without,"
        " a connection that is being closed has so long to take what waits for it, and a client"
        " of cquencer's port to take its answers. NATS' default.",
        flags=("--write_deadline",),
        bounds=(0.01, 3600.0),
    )
    ping_interval: float = setting(
        120.0,
        "duration",
        "How long a connection may be silent before we PING it. NATS' default, which clients"
        " and the idle timers of routers are used to.",
        flags=("--ping_interval",),
        bounds=(0.01, 86400.0),
    )
    ping_max: int = setting(
        2,
        "count",
        "How many PINGs may stay unanswered before the connection is stale and is closed. NATS'"
        " default: one lost answer is forgiven.",
        flags=("--ping_max",),
        bounds=(1, 1000),
    )
    closings_logged: int = setting(
        10,
        "count",
        "How many lines a minute the log has, for each address, of connections that we have closed"
        " or refused; the others are counted. Enough to see what is wrong with a client; few"
        " enough that one which tries again for ever does not fill the disk.",
        flags=("--closings_logged",),
        bounds=(0, 1_000_000),
        zero="0: no limit",
    )
    drain_timeout: float = setting(
        2.0,
        "duration",
        "At a stop, how long what was accepted may take to be delivered before connections are"
        " closed. Well below the 10 s after which containers are killed.",
        flags=("--drain_timeout",),
        bounds=(0.0, 300.0),
        zero="0: close at once",
    )
    max_routes: int = setting(
        262_144,
        "count",
        "How many subjects we remember the subscribers of. Enough for 100 000 subjects in use"
        " with room to spare; a forgotten one is only looked up again.",
        flags=("--max_routes",),
        bounds=(16, 16_777_216),
    )
    receive_buffer: int = setting(
        256 * KIB,
        "size",
        "The buffer all connections read into, one after the other. Larger reads save system"
        " calls; beyond 256 KiB nothing more was gained. Never below the longest control line.",
        flags=("--receive_buffer",),
        bounds=(64 * KIB, 16 * MIB),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencerSettings:
    """What gets a number."""

    exclude: tuple[str, ...] = setting(
        (),
        "list",
        "Subjects that pass unnumbered and unframed. Say `_INBOX.>` under heavy request/reply."
        " Empty by default: every message has its number.",
        flags=("--exclude",),
    )
    port: int = setting(
        0,
        "port",
        "The port for cquencer's clients: what one sends is a message, the answer its number."
        " Off by default; docs/cquencer.md says what it is for.",
        flags=("--sequencer_port",),
        bounds=(-1, 65535),
        zero="0: off; -1: any free port",
    )
    host: str = setting(
        "",
        "host",
        "The address that port is on.",
        flags=("--sequencer_host",),
        zero="empty: the same as `host`",
    )
    framing: str = setting(
        "recv",
        "choice",
        "Where a message ends there. `recv`: what one recv gives is a message, so a client waits"
        " for the answer before it sends the next; so cquencer has it. With `netstring` it need"
        " not wait, and any message can be sent.",
        flags=("--sequencer_framing",),
        choices=FRAMINGS,
    )
    subject: str = setting(
        "cq",
        "subject",
        "The subject under which subscribers get these messages, and the journal keeps them.",
        flags=("--sequencer_subject",),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that a broker is told at its start."""

    host: str = setting(
        "0.0.0.0",
        "host",
        "The address to listen on for clients. 0.0.0.0 and :: are every interface, of IPv4 and of"
        " IPv6, as with nats-server; give the address of one interface for less.",
        flags=("-a", "--net", "--addr"),
    )
    port: int = setting(
        4222,
        "port",
        "The port to listen on for clients. 4222 is the one NATS clients try.",
        flags=("-p", "--port"),
        bounds=(-1, 65535),
        zero="0: none, where there is another way in; -1: any free port",
    )
    frame: str = setting(
        "netstring",
        "choice",
        "How a message carries its number. In the nested netstring that is its payload, in the"
        " header `Nats-Sequence`, or not at all, as a plain NATS server. A client may choose"
        " its own.",
        flags=("--frame",),
        choices=FRAMES,
    )
    server_name: str = setting(
        "",
        "text",
        "The name clients and monitoring see.",
        flags=("-n", "--name", "--server_name"),
        zero="empty: the server's id",
    )
    http_host: str = setting(
        "",
        "host",
        "The address monitoring listens on. A broker that is bound to loopback stays there.",
        flags=("--http_host",),
        zero="empty: the same as `host`",
    )
    http_port: int = setting(
        0,
        "port",
        "The port for monitoring. Off by default, for it tells anyone who asks; 8222 is"
        " nats-server's custom. docs/monitoring.md says what is there.",
        flags=("-m", "--http_port"),
        bounds=(-1, 65535),
        zero="0: off; -1: any free port",
    )
    store_dir: str = setting(
        "",
        "text",
        "The directory of the journal, made where it is missing. One broker at a time may have it.",
        flags=("-sd", "--store_dir"),
        zero="empty: $XDG_STATE_HOME/seriatim, else /var/lib/seriatim for root and"
        " ~/.local/state/seriatim for others",
    )
    log_file: str = setting(
        "",
        "text",
        "The file to log to. Containers and systemd look at standard error.",
        flags=("-l", "--log"),
        zero="empty: standard error",
    )
    pid_file: str = setting(
        "",
        "text",
        "The file to write the process id to.",
        flags=("-P", "--pid"),
        zero="empty: none",
    )
    debug: bool = setting(
        False,
        "flag",
        "Log what connections do. Off by default: a line per connection.",
        flags=("-D", "--debug"),
    )
    trace: bool = setting(
        False,
        "flag",
        "Log every protocol operation. Off by default: it costs most of the speed.",
        flags=("-V", "--trace"),
    )
    loop: str = setting(
        "auto",
        "choice",
        "The event loop. `auto` takes uvloop when it is installed and asyncio's own otherwise.",
        flags=("--loop",),
        choices=LOOPS,
    )
    listeners: tuple[Listener, ...] = dataclasses.field(default=())
    feeds: tuple[FeedSettings, ...] = dataclasses.field(default=())
    limits: Limits = dataclasses.field(default_factory=Limits)
    sequencer: SequencerSettings = dataclasses.field(default_factory=SequencerSettings)
    journal: JournalSettings = dataclasses.field(default_factory=JournalSettings)
    staging: StagingSettings = dataclasses.field(default_factory=StagingSettings)


def settings_to_json(settings: Settings) -> str:
    """All of `settings` as one line of JSON, for the process that runs the broker."""
    return json.dumps(dataclasses.asdict(settings))


def settings_from_json(text: str | bytes) -> Settings:
    """The settings that `settings_to_json` wrote. Trusts them: they were checked before."""
    raw = json.loads(text)
    raw["listeners"] = tuple(Listener(**listener) for listener in raw["listeners"])
    raw["feeds"] = tuple(FeedSettings(**feed) for feed in raw["feeds"])
    raw["limits"] = Limits(**raw["limits"])
    raw["sequencer"]["exclude"] = tuple(raw["sequencer"]["exclude"])
    raw["sequencer"] = SequencerSettings(**raw["sequencer"])
    raw["journal"] = JournalSettings(**raw["journal"])
    raw["staging"] = StagingSettings(**raw["staging"])
    return Settings(**raw)
