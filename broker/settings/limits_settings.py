"""The limits of a broker: what one peer may ask of it, and how long it waits."""

from seriatim.settings.frozen_fields import FrozenFields
from seriatim.settings.setting import GIB, KIB, MIB, setting

CONTROL_LINE_MAX = 64 * KIB  # the buffer for reading has room for such a line
# Without a journal, a subscriber with more unsent bytes holds back its publishers. More than a
# healthy reader ever has unsent, and it fits in the processor's cache.
HOLD_PENDING = 1 * MIB


class Limits(FrozenFields):
    """The limits of what one peer may ask of the broker, and how long the broker waits for it."""

    max_payload: int = setting(
        1 * MIB,
        "size",
        "The largest message accepted, including headers. NATS' default. Clients read it from"
        " INFO, and split or refuse larger messages.",
        flags=("--max_payload",),
        bounds=(1, 64 * MIB),
        reload=True,
        common=True,
    )
    max_control_line: int = setting(
        4 * KIB,
        "size",
        "The longest protocol line accepted, without a payload. NATS' default. A subject, a reply"
        " subject and a size are far shorter. CONNECT is such a line, too: many clients send 200"
        " bytes or more.",
        flags=("--max_control_line",),
        bounds=(256, CONTROL_LINE_MAX),
        reload=True,
    )
    max_connections: int = setting(
        65536,
        "count",
        "How many clients may be connected at once. NATS' default. The limit of open files (ulimit"
        " -n) is often reached first; new clients then wait.",
        flags=("--max_connections",),
        bounds=(1, 1_000_000),
        reload=True,
        common=True,
    )
    max_connections_per_address: int = setting(
        0,
        "count",
        "How many clients may be connected from one address. An IPv6 network of 2^64 counts as one"
        " address. No limit by default: all clients behind one proxy, or in the containers of one"
        " machine, share an address, and the broker cannot know how many these are.",
        flags=("--max_connections_per_address",),
        bounds=(0, 1_000_000),
        zero="0: no limit",
        reload=True,
    )
    max_subscriptions: int = setting(
        0,
        "count",
        "How many subscriptions one connection may have. No limit by default, as in NATS: the"
        " broker cannot know what a service needs.",
        flags=("--max_subscriptions",),
        bounds=(0, 100_000_000),
        zero="0: no limit",
        reload=True,
        common=True,
    )
    max_subscriptions_total: int = setting(
        5_000_000,
        "count",
        "How many subscriptions all connections together may have; those in a replay count too. A"
        " subscription takes about 340 bytes, so the default is 1.7 GB: each of 65 536 connections"
        " can have 75. Larger ones count for more: for each 256 bytes of subject, sid and queue"
        " group one more, and for every two tokens of a pattern with a wildcard, because each token"
        " takes 225 bytes. A SUB above the limit is refused, and its connection stays.",
        flags=("--max_subscriptions_total",),
        bounds=(0, 1_000_000_000),
        zero="0: no limit",
        reload=True,
    )
    max_subject_tokens: int = setting(
        0,
        "count",
        "How many tokens a subject may have, in SUB and PUB; of `$SEQ.` subjects, the subject that"
        " they are about. A message or subscription with more is refused, and its connection stays."
        " No limit by default, as in NATS: the length of a line is the limit. Matching 2000 tokens"
        " takes 50 to 80 us, no more than as many bytes of short messages; and a pattern of 2000"
        " tokens counts as a thousand subscriptions. In a cluster, the limit of the member counts"
        " to which a client is connected.",
        flags=("--max_subject_tokens",),
        bounds=(0, 32_768),
        zero="0: no limit",
        reload=True,
    )
    publish_rate: int = setting(
        0,
        "count",
        "How many messages a second a user may publish, with all its connections; without"
        " authentication, how many each connection may. A user may have a limit of its own. Rows"
        " that are staged and messages through cquencer's port count as well. A user over the"
        " limit is not read again until the excess is paid back: nothing is dropped, and what it"
        " sends waits in its socket. No limit by default: how much is too much depends on the"
        " machine.",
        flags=("--publish_rate",),
        bounds=(0, 1_000_000_000),
        zero="0: no limit",
        reload=True,
        common=True,
    )
    publish_bytes: int = setting(
        0,
        "size",
        "How many bytes a second a user may publish, with headers and payloads, as"
        " `limits.publish_rate` says. A longer message is accepted, and paid back afterwards.",
        flags=("--publish_bytes",),
        bounds=(0, 1 << 40),
        zero="0: no limit",
        reload=True,
        common=True,
    )
    publish_burst: float = setting(
        1.0,
        "duration",
        "How much a user may publish at once that has published nothing for a while: what"
        " `limits.publish_rate` and `limits.publish_bytes` allow in this time. A second lets a"
        " program send a batch, and is short enough that others notice nothing of it.",
        flags=("--publish_burst",),
        bounds=(0.01, 3600.0),
        reload=True,
    )
    max_replays: int = setting(
        4096,
        "count",
        "How many replays one connection may have open: subscriptions to `$SEQ.FROM`, `$SEQ.RANGE`,"
        " `$SEQ.SINCE` and `$SEQ.LAST` that are not live yet."
        " A SUB above the limit is refused, and its connection stays. Enough for a program that"
        " resumes thousands of subscriptions one by one; and 32 such connections must come together"
        " to reach `limits.max_replays_total`. Connections take turns, so another one's replay does"
        " not wait for all of these.",
        flags=("--max_replays",),
        bounds=(0, 100_000_000),
        zero="0: no limit",
        reload=True,
    )
    max_replays_total: int = setting(
        131_072,
        "count",
        "How many replays all connections together may have open. Two for each of 65 536"
        " connections, which may all resume after a restart. A replay takes 550 to 750 bytes, so"
        " this is 100 MB at most. Live messages do not wait for replays, but each replay reads the"
        " journal by itself: 1000 of them through 20 000 messages took 10 s of one core.",
        flags=("--max_replays_total",),
        bounds=(0, 100_000_000),
        zero="0: no limit",
        reload=True,
    )
    max_matches: int = setting(
        16384,
        "count",
        "How many subscriptions of one connection one message may match; each member of a queue"
        " group counts. A SUB that would exceed this is refused. All deliveries of a message are"
        " made in one turn, in which no other client is served. With a million subscriptions to one"
        " subject, each message took a quarter of a second. Any number of subscriptions to"
        " different subjects is allowed.",
        flags=("--max_matches",),
        bounds=(0, 100_000_000),
        zero="0: no limit",
        reload=True,
    )
    max_matches_per_user: int = setting(
        16384,
        "count",
        "How many subscriptions of one user one message may match, on top of one for each of its"
        " connections; without authentication, how many of one address. A SUB that would exceed"
        " this is refused. So one user cannot do with many connections what"
        " `limits.max_matches` denies to one, and any number of clients may subscribe to"
        " the same subject.",
        flags=("--max_matches_per_user",),
        bounds=(0, 100_000_000),
        zero="0: no limit",
        reload=True,
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
        reload=True,
        common=True,
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
        reload=True,
    )
    hold_ms: int = setting(
        100,
        "count",
        "Without a journal, how many milliseconds a subscriber may hold back its publishers."
        " After that it holds back no publisher until it has drained, so a dead subscriber cannot"
        " stall a publisher. For a live one 100 ms is a long pause.",
        flags=("--hold_ms",),
        bounds=(0, 60_000),
        zero="0: publishers are never held",
        reload=True,
    )
    gather_us: int = setting(
        250,
        "count",
        "While small messages come in a dense stream and each release of the output costs much"
        " more than they do, how many microseconds lie between two releases at most. Usually it"
        " is four times what a release costs, so that a quarter of the time goes into them. A"
        " lone message never waits, and clients that wait for each answer are noticed: for them"
        " turns begin at once.",
        flags=("--gather_us",),
        bounds=(0, 10_000),
        zero="0: every turn begins at once",
    )
    catchup_pending: int = setting(
        1 * MIB,
        "size",
        "With a journal, a subscriber with more unsent bytes than this is served from the journal"
        " until it has caught up. It reads at its own speed, and no publisher waits for it. 1 MiB"
        " is more than a healthy reader ever has unsent. The limit bounds the memory that a slow"
        " one costs. Of messages over 128 KiB it is eight, so that a healthy reader of large ones"
        " is not served from the journal either.",
        flags=("--catchup_pending",),
        bounds=(4 * KIB, 16 * GIB),
        reload=True,
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
        reload=True,
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
        reload=True,
    )
    ping_interval: float = setting(
        120.0,
        "duration",
        "How long a connection may be silent before the broker sends a PING. NATS' default, which"
        " suits clients and the idle timers of routers.",
        flags=("--ping_interval",),
        bounds=(0.01, 86400.0),
        reload=True,
        common=True,
    )
    ping_max: int = setting(
        2,
        "count",
        "How many PINGs may stay unanswered before a connection is closed as stale. NATS' default:"
        " one lost answer is tolerated.",
        flags=("--ping_max",),
        bounds=(1, 1000),
        reload=True,
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
        reload=True,
    )
    drain_timeout: float = setting(
        2.0,
        "duration",
        "How long a broker that stops may take to deliver accepted messages before it closes the"
        " connections. Well below the 10 s after which containers are killed.",
        flags=("--drain_timeout",),
        bounds=(0.0, 300.0),
        zero="0: close at once",
        reload=True,
    )
    lame_duck: float = setting(
        10.0,
        "duration",
        "Over how long a broker that gets SIGUSR2 closes its clients, one after the other, before"
        " it stops. They are told first (INFO with `ldm`), and accepted messages are delivered. A"
        " member of a cluster does the same at SIGTERM, after it has left the view. Ten seconds"
        " keep a thousand clients from reaching the other members all at once. A few clients"
        " leave sooner: a second apart at most. Only SIGINT ends it early.",
        flags=("--lame_duck",),
        bounds=(0.0, 3600.0),
        zero="0: close all at once",
        reload=True,
        common=True,
    )
    lame_duck_grace: float = setting(
        1.0,
        "duration",
        "How much of `limits.lame_duck` passes before the first client is closed, half of it at"
        " most. In this time clients that understand INFO with `ldm` go by themselves, and lose"
        " nothing that they have not asked for yet. nats-server waits 10 s, and then closes clients"
        " over two minutes; give both if yours need that long.",
        flags=("--lame_duck_grace",),
        bounds=(0.0, 3600.0),
        reload=True,
    )
    max_routes: int = setting(
        262_144,
        "count",
        "For how many subjects the broker remembers the subscribers. It remembers subjects that"
        " are used again and again; with millions of them, in turn, looking up each one costs no"
        " more. Raise it only if there are thousands of patterns with wildcards.",
        flags=("--max_routes",),
        bounds=(16, 16_777_216),
    )

    @property
    def hold_pending(self) -> int:
        """The unsent bytes above which a subscriber holds back its publishers.

        Below `max_pending`: else a flood would disconnect able readers.
        """
        return min(HOLD_PENDING, self.max_pending // 2)
