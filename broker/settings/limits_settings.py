"""The limits of a broker: what one peer may ask of it, and how long it waits."""

from seriatim.settings.frozen_fields import FrozenFields
from seriatim.settings.setting import GIB, KIB, MIB, setting


class Limits(FrozenFields):
    """What one peer may ask of the broker, and how long the broker waits for it."""

    max_payload: int = setting(
        1 * MIB,
        "size",
        "The largest message accepted, including headers. NATS' default. Clients read it from"
        " INFO, and split or refuse larger messages.",
        flags=("--max_payload",),
        bounds=(1, 64 * MIB),
    )
    max_control_line: int = setting(
        4 * KIB,
        "size",
        "The longest protocol line accepted, without a payload. NATS' default. A subject, a reply"
        " subject and a size are far shorter. CONNECT is such a line, too: many clients send 200"
        " bytes or more.",
        flags=("--max_control_line",),
        bounds=(256, 64 * KIB),
    )
    max_connections: int = setting(
        65536,
        "count",
        "How many clients may be connected at once. NATS' default. The limit of open files (ulimit"
        " -n) is often reached first; new clients then wait.",
        flags=("--max_connections",),
        bounds=(1, 1_000_000),
    )
    reserved_files: int = setting(
        64,
        "count",
        "How many open files (ulimit -n) are reserved for the broker itself, not for clients. The"
        " journal, staging, monitoring and the log need about 40. At most half of the limit is"
        " reserved. When clients use all the others, new clients wait.",
        flags=("--reserved_files",),
        bounds=(0, 100_000),
    )
    max_subscriptions: int = setting(
        0,
        "count",
        "How many subscriptions one connection may have. No limit by default, as in NATS: the"
        " broker cannot know what a service needs.",
        flags=("--max_subscriptions",),
        bounds=(0, 100_000_000),
        zero="0: no limit",
    )
    max_match_nodes: int = setting(
        8192,
        "count",
        "How many nodes of the tree of wildcard subscriptions one message may visit. A pattern of"
        " more than 10 tokens is refused if it could exceed this. With all combinations of `a` and"
        " `*`, each token doubles the number of nodes. Usual patterns stay far below a hundred"
        " nodes, however many there are. Visiting 8192 takes about 5 ms, in which nobody else is"
        " served.",
        flags=("--max_match_nodes",),
        bounds=(0, 100_000_000),
        zero="0: no limit",
    )
    max_matches: int = setting(
        16384,
        "count",
        "How many subscriptions of one connection one message may match; each member of a queue"
        " group counts. A SUB that would exceed this is refused. All deliveries of a message are"
        " made in one turn, in which nobody else is served. With a million subscriptions to one"
        " subject, each message took a quarter of a second. Any number of subscriptions to"
        " different subjects is allowed.",
        flags=("--max_matches",),
        bounds=(0, 100_000_000),
        zero="0: no limit",
    )
    max_pending: int = setting(
        64 * MIB,
        "size",
        "How many unsent bytes a subscriber may have before it is closed as a slow consumer. With"
        " a journal, only answers and excluded subjects can reach this limit. Of numbered messages"
        " at most `limits.catchup_pending` waits; the journal serves the rest. NATS' default: it"
        " covers a pause of half a second at 1 Gbit/s.",
        flags=("--max_pending",),
        bounds=(4 * KIB, 16 * GIB),
    )
    max_pending_total: int = setting(
        512 * MIB,
        "size",
        "How many unsent bytes all subscribers together may have. Above it the journal serves"
        " those that lag. Without a journal, the one with the most is closed as a slow consumer."
        " Eight times the default for one subscriber: many dead readers must not use up the"
        " memory.",
        flags=("--max_pending_total",),
        bounds=(0, 1 << 44),
        zero="0: no limit",
    )
    hold_pending: int = setting(
        1 * MIB,
        "size",
        "Without a journal, a subscriber with more unsent bytes than this briefly holds back its"
        " publishers. 1 MiB is more than a healthy reader ever has unsent, and it fits in the"
        " processor's cache.",
        flags=("--hold_pending",),
        bounds=(4 * KIB, 16 * GIB),
    )
    hold_ms: int = setting(
        100,
        "count",
        "Without a journal, how many milliseconds a subscriber may hold back its publishers."
        " After that it holds back nobody until it has drained, so a dead subscriber cannot stall a"
        " publisher. For a live one 100 ms is a long pause.",
        flags=("--hold_ms",),
        bounds=(0, 60_000),
        zero="0: publishers are never held",
    )
    catchup_pending: int = setting(
        1 * MIB,
        "size",
        "With a journal, a subscriber with more unsent bytes than this is served from the journal"
        " until it has caught up. It reads at its own speed, and nobody waits for it. 1 MiB is"
        " more than a healthy reader ever has unsent. The limit bounds the memory that a slow one"
        " costs.",
        flags=("--catchup_pending",),
        bounds=(4 * KIB, 16 * GIB),
    )
    answers_pending: int = setting(
        512 * MIB,
        "size",
        "How much memory `$SEQ.READ` and `$SEQ.LAST` may use, of all connections together. A"
        " quarter is for chunks that are being gathered or that clients have not read yet, the"
        " rest for the subjects of `$SEQ.LAST`. A request that needs more waits until memory is"
        " free again. The default is enough for two million subjects at a time, and for about 300"
        " reads whose clients read nothing.",
        flags=("--answers_pending",),
        bounds=(8 * MIB, 1 << 40),
    )
    write_deadline: float = setting(
        10.0,
        "duration",
        "Without a journal, how long a subscriber may read nothing before it is closed as a slow"
        " consumer. With a journal it is not closed for that: it is served from the journal when"
        " it reads again, and PINGs detect whether it is alive. In both cases a connection that is"
        " being closed has this long to read what waits for it. So has a client of cquencer's port"
        " to read its answers. NATS' default.",
        flags=("--write_deadline",),
        bounds=(0.01, 3600.0),
    )
    ping_interval: float = setting(
        120.0,
        "duration",
        "How long a connection may be silent before the broker sends a PING. NATS' default, which"
        " suits clients and the idle timers of routers.",
        flags=("--ping_interval",),
        bounds=(0.01, 86400.0),
    )
    ping_max: int = setting(
        2,
        "count",
        "How many PINGs may stay unanswered before a connection is closed as stale. NATS' default:"
        " one lost answer is tolerated.",
        flags=("--ping_max",),
        bounds=(1, 1000),
    )
    closings_logged: int = setting(
        10,
        "count",
        "How many lines a minute the log has, for each address, about connections that the broker"
        " closed or refused. The others are only counted. Ten are enough to see what is wrong with"
        " a client, and a client that retries forever does not fill the disk.",
        flags=("--closings_logged",),
        bounds=(0, 1_000_000),
        zero="0: no limit",
    )
    drain_timeout: float = setting(
        2.0,
        "duration",
        "How long a broker that stops may take to deliver accepted messages before it closes the"
        " connections. Well below the 10 s after which containers are killed.",
        flags=("--drain_timeout",),
        bounds=(0.0, 300.0),
        zero="0: close at once",
    )
    lame_duck: float = setting(
        10.0,
        "duration",
        "Over how long a broker that gets SIGUSR2 closes its clients, one after the other, before"
        " it stops. They are told first (INFO with `ldm`), and accepted messages are delivered. A"
        " member of a cluster does the same at SIGTERM, after it has left the view. Ten seconds"
        " keep a thousand clients from reaching the other members all at once. A second signal"
        " ends it.",
        flags=("--lame_duck",),
        bounds=(0.0, 3600.0),
        zero="0: close all at once",
    )
    max_routes: int = setting(
        262_144,
        "count",
        "For how many subjects the broker remembers the subscribers. Enough for 100 000 subjects"
        " in use, with room to spare. A forgotten subject is only looked up again.",
        flags=("--max_routes",),
        bounds=(16, 16_777_216),
    )
    receive_buffer: int = setting(
        512 * KIB,
        "size",
        "The size of the buffer into which all connections read, one after the other. Larger reads"
        " save system calls. Above 512 KiB, a flood more often makes subscribers lag, so that the"
        " journal serves them, which costs more. It is never smaller than the longest control"
        " line.",
        flags=("--receive_buffer",),
        bounds=(64 * KIB, 16 * MIB),
    )

    @property
    def hold_pending_used(self) -> int:
        """Below `max_pending`; otherwise a flood would disconnect readers that could keep up."""
        return min(self.hold_pending, self.max_pending // 2)
