"""Cases about subjects: SUB, UNSUB, PUB subjects, queues, replies, headers."""

from tests.wire.cases import (
    ASKER,
    DEAF,
    DEAF_ASKER,
    HEADS,
    LOUD,
    QUIET,
    STRICT,
    Case,
    each,
)

STRICT_LOUD = b'CONNECT {"headers":true}\r\n'
NET = b"SUB > 1\r\nSUB foo.* 2\r\nSUB foo.> 3\r\nSUB foo.bar 4\r\nSUB * 5\r\nSUB *.> 6\r\n"

SUBSCRIBE = [
    *each(
        LOUD,
        *(b"a..b", b".a", b"a.", b".", b"..", b">", b">.a", b"a.>.b", b">.", b"foo*", b"*foo"),
        *(b"f>", b"a.*", b"*", b"*.>", b"*.*.>", b"a.b*", b"a.>b", b">>", b"**", b"a.**", b"a.*."),
        *(b"\xff", b"\xc3\xa9", b"a\x00b", b"a\x7f", b"a'b", b"$SYS.>", b"_GR_.x", b"_R_.>"),
        *(b"$NRG.x", b"$JS.x", b"_INBOX.x"),
        suffix=b" 1\r\nPUB a 1\r\nx\r\nUNSUB 1\r\n",
        about="SUB",
    ),
    *each(
        LOUD,
        b"SUB a..b q 1\r\nSUB a 1\r\nPUB a 1\r\nx\r\n",
        b"SUB a..b 1\r\nUNSUB 1\r\nSUB a 1\r\nPUB a 1\r\nx\r\n",
        b"SUB a 1\r\nSUB b 1\r\nPUB a 1\r\nx\r\nPUB b 1\r\ny\r\n",
        b"SUB a q 1\r\nSUB a 1\r\nPUB a 1\r\nx\r\n",
        b"SUB a 1\r\nSUB a..b 1\r\nPUB a 1\r\nx\r\n",
        b"SUB a *\r\nPUB a 1\r\nx\r\nUNSUB *\r\nPUB a 1\r\ny\r\n",
        b"SUB a 1\r\nUNSUB 1\r\nSUB b 1\r\nPUB a 1\r\nx\r\nPUB b 1\r\ny\r\n",
        b"SUB a " + b"s" * 300 + b"\r\nPUB a 1\r\nx\r\n",
        b"SUB a \xff\x00\r\nPUB a 1\r\nx\r\n",
        b"SUB a q\xff 1\r\nPUB a 1\r\nx\r\n",
        b"SUB a q.*.> 1\r\nPUB a 1\r\nx\r\n",
        b"SUB a .. 1\r\nPUB a 1\r\nx\r\n",
        b"SUB A 1\r\nPUB a 1\r\nx\r\nPUB A 1\r\nx\r\n",
        b"SUB a 3\r\nSUB a 1\r\nSUB a 2\r\nSUB * 4\r\nSUB > 5\r\nPUB a 1\r\nx\r\n",
        b"SUB foo* 1\r\nPUB foo* 1\r\nx\r\nPUB foob 1\r\ny\r\n",
        b"SUB *.b 1\r\nPUB a.b 1\r\nx\r\nPUB .b 1\r\ny\r\nPUB a.b.c 1\r\nz\r\n",
        b"SUB a.> 1\r\nPUB a 1\r\nx\r\nPUB a.b 1\r\ny\r\nPUB a.b.c.d.e 1\r\nz\r\n",
        about="SUB",
    ),
    Case(
        "a subject of 200 tokens",
        QUIET + b"SUB %s.> 1\r\nPUB %s.a 1\r\nx\r\n" % ((b"a" + b".a" * 199,) * 2),
    ),
]

PUBLISH = [
    *each(
        QUIET + NET,
        *(b"a..b", b".a", b"a.", b"foo.*", b"foo.>", b">", b"*", b"..", b".", b"foo.bar", b"a.b."),
        *(b"foo..", b"foo", b"foo.bar.baz", b"\xff\x00", b"_INBOX.x", b"$SYS.x", b"$JS.API.INFO"),
        *(b"$SYS.REQ.SERVER.PING", b"_GR_", b"_GR_.", b"_GR_.x", b"_gr_.x", b"_R_.x", b"$GR.x"),
        *(b"$NRG", b"$NRG.", b"$NRG.x", b"$JSC.x", b"$SRV.PING"),
        suffix=b" 1\r\nx\r\n",
        about="PUB",
    ),
    *each(
        QUIET + b"SUB a 1\r\nPUB a ",
        *(b"_R_", b"_R_.", b"_R_.x", b"_GR_.", b"_GR_.x", b"$GR.x", b"$JS.ACK", b"$JS.ACK.x"),
        *(b"$JS.x", b"$NRG.x", b"$SYS.x", b"a..b", b"*", b">", b"_INBOX.1"),
        suffix=b" 1\r\nx\r\n",
        about="reply",
    ),
    *each(
        LOUD + b"SUB > 1\r\n",
        b"PUB a..b 1\r\nx\r\n",
        b"PUB _GR_.x 1\r\nx\r\n",
        b"PUB a _R_.x 1\r\nx\r\n",
        b"PUB _GR_.x _R_.y 1\r\nx\r\n",
        about="verbose",
    ),
    Case("a refused PING as payload", LOUD + b"PUB _GR_.x 6\r\nPING\r\n\r\n", inner_pings=1),
    *each(
        HEADS + b"SUB > 1\r\n",
        b"HPUB a..b 1 1\r\nx\r\n",
        b"HPUB _GR_.x 1 1\r\nx\r\n",
        b"HPUB a _R_.x 1 1\r\nx\r\n",
        b"HPUB a a..b 1 1\r\nx\r\n",
    ),
]

PEDANTIC = [
    Case(case.name, case.script, uneven=True)  # nats-server looks at split arguments twice
    for case in [
        *each(
            STRICT + b"SUB > 1\r\n",
            *(b"a..b", b".a", b"a.", b"*", b">", b"a.*", b"a.>", b"foo*", b"f>", b"a", b"\xff"),
            *(b"_GR_.x", b"_GR_.a..b", b"$NRG.", b"_R_."),
            suffix=b" 1\r\nx\r\n",
            about="pedantic PUB",
        ),
        *each(
            STRICT_LOUD + b"SUB > 1\r\n",
            b"PUB a..b 1\r\nx\r\n",
            b"PUB a.* 1\r\nx\r\n",
            b"PUB a r..x 1\r\nx\r\n",
            b"PUB a r.* 1\r\nx\r\n",
            b"HPUB a.* 1 1\r\nx\r\n",
            b"HPUB a. 1 1\r\nx\r\n",
            b"PUB $NRG. 1\r\nx\r\n",
            about="pedantic, verbose",
        ),
    ]
]

_FOUR = b"PUB a 1\r\n1\r\nPUB a 1\r\n2\r\nPUB a 1\r\n3\r\nPUB a 1\r\n4\r\n"

UNSUBSCRIBE = [
    *each(
        LOUD + b"SUB a 1\r\n",
        *(b"UNSUB 1 2\r\n", b"UNSUB 1 1\r\n", b"UNSUB 1 0\r\n", b"UNSUB 1 -1\r\n"),
        *(b"UNSUB 1 x\r\n", b"UNSUB 1 02\r\n", b"UNSUB 1 +2\r\n", b"UNSUB 1 000000000002\r\n"),
        *(b"UNSUB 1 2\r\nUNSUB 1 3\r\n", b"UNSUB 1 3\r\nUNSUB 1 1\r\n"),
        *(b"UNSUB 1 1\r\nUNSUB 1\r\n", b"UNSUB 1 2\r\nUNSUB 1 0\r\n", b"UNSUB 1 999999999\r\n"),
        *(b"UNSUB 1 9999999999\r\n", b"UNSUB 1 2\r\nUNSUB 1 9999999999\r\n"),
        *(b"UNSUB 9\r\nUNSUB 9 4\r\n", b"UNSUB 1\r\nUNSUB 1\r\n"),
        suffix=_FOUR,
    ),
    *each(
        QUIET + b"SUB a 1\r\nPUB a 1\r\n8\r\nPUB a 1\r\n9\r\n",
        *(b"UNSUB 1 1\r\n", b"UNSUB 1 2\r\n", b"UNSUB 1 3\r\n", b"UNSUB 1 5\r\n"),
        suffix=_FOUR,
        about="two delivered, then",
    ),
    *each(
        QUIET + b"SUB a 1\r\n",
        b"UNSUB 1 1\r\nPUB a 1\r\n1\r\nSUB b 1\r\nPUB a 1\r\n2\r\nPUB b 1\r\n3\r\n",
        b"UNSUB 1 2\r\nPUB a 1\r\n1\r\nUNSUB 1\r\nSUB a 1\r\n" + _FOUR,
        b"UNSUB 1 2\r\nPUB a 1\r\n1\r\nSUB b 1\r\nPUB b 1\r\n2\r\n" + _FOUR,
        b"SUB a 2\r\nUNSUB 1 1\r\n" + _FOUR,
    ),
]

QUEUES = [
    *each(
        QUIET,
        b"SUB a q q1a\r\nSUB a q q1b\r\n" + _FOUR,
        b"SUB a q q1a\r\nSUB a q q1b\r\nUNSUB q1a\r\n" + _FOUR,
        b"SUB a q q1a\r\nSUB * q q1b\r\nSUB > q q1c\r\n" + _FOUR,
        b"SUB a q q1a\r\nSUB a Q q2a\r\nSUB * r q3a\r\nSUB a 4\r\nSUB > 5\r\n" + _FOUR,
        b"SUB a q q1a\r\nSUB a q q1b\r\nUNSUB q1a 1\r\nUNSUB q1b 1\r\n" + _FOUR,
        b"SUB a q q1a\r\nUNSUB q1a 2\r\n" + _FOUR,
        b"SUB a q 1\r\nSUB b q 2\r\n" + _FOUR,
        about="queue",
    ),
    *each(DEAF, b"SUB a 1\r\n" + _FOUR, b"SUB a q 1\r\n" + _FOUR, about="echo false"),
]

_ASKS = (
    b"PUB a r 1\r\nx\r\n",
    b"SUB r 1\r\nPUB a r 1\r\nx\r\n",
    b"SUB r q 1\r\nPUB a r 1\r\nx\r\n",
    b"SUB * 1\r\nPUB a.b r 1\r\nx\r\n",
    b"SUB * 1\r\nSUB r 2\r\nPUB a r 1\r\nx\r\n",
    b"SUB r 1\r\nHPUB a r 1 2\r\nxy\r\n",
    b"SUB r 1\r\nPUB r r 1\r\nx\r\n",
    b"SUB r 1\r\nUNSUB 1 2\r\n" + b"PUB a r 1\r\nx\r\n" * 4,
    b"SUB r 1\r\nPUB a..b r 1\r\nx\r\n",
    b"SUB r 1\r\nPUB _GR_.x r 1\r\nx\r\n",
    b"SUB r.* 1\r\nPUB a r.1 0\r\n\r\n",
    b"SUB r q 1\r\nSUB r 2\r\nPUB a r 1\r\nx\r\n",
    b"SUB a 1\r\nSUB r 2\r\nPUB a r 1\r\nx\r\n",
    b"SUB a q 1\r\nSUB r 2\r\nPUB a r 1\r\nx\r\n",
    b"SUB r 1\r\nPUB a.b.c r 1\r\nx\r\nPUB $SYS.a r 0\r\n\r\n",
    b"SUB r 1\r\nPUB a r..x 0\r\n\r\n",
    b"SUB > 1\r\nPUB a.b r 0\r\n\r\n",
    b"SUB r sidlong\r\nPUB foo.barbaz r 0\r\n\r\n",
    b"SUB r 1\r\nPUB a 1\r\nx\r\n",
)

NO_RESPONDERS = [
    *each(ASKER, *_ASKS, about="asks"),
    *each(DEAF_ASKER, *_ASKS, about="asks, echo false"),
    *each(
        b'CONNECT {"headers":true,"no_responders":true,"pedantic":false}\r\n',
        b"SUB r 1\r\nPUB a r 1\r\nx\r\n",
        about="asks, verbose",
    ),
    *each(HEADS, b"SUB r 1\r\nPUB a r 1\r\nx\r\n", about="did not ask to be told"),
]

_HEAD = b"NATS/1.0\r\nA: b\r\n\r\n"  # 18 bytes

HEADERS = [
    *each(
        HEADS + b"SUB a 1\r\n",
        b"HPUB a 18 20\r\n" + _HEAD + b"hi\r\n",
        b"HPUB a r 18 20\r\n" + _HEAD + b"hi\r\n",
        b"HPUB a r 18 18\r\n" + _HEAD + b"\r\n",
        b"HPUB a r 0 0\r\n\r\n",
        b"HPUB a 002 0003\r\nabc\r\n",
        about="headers",
    ),
    Case(
        "PINGs as headers and payload",
        HEADS + b"SUB a 1\r\nHPUB a 6 12\r\nPING\r\nPING\r\n\r\nPUB a 1\r\nx\r\n",
        inner_pings=2,
    ),
    *each(
        b"",
        QUIET + b"SUB > 1\r\nHPUB a 1 1\r\nx\r\n",
        b"SUB > 1\r\nHPUB a 1 1\r\nx\r\n",
        b"HPUB a\r\n",
        QUIET + b"HPUB a 0 6\r\n",
        QUIET + b"HPUB a 0 0\r\n\n\r\n",
        STRICT_LOUD + b"SUB > 1\r\nHPUB a 1 1\r\nx\r\n",
        about="headers",
    ),
]

ORDER = [
    Case(
        "each answer in its place",
        b'CONNECT {"pedantic":false}\r\nSUB a 1\r\nPUB a 1\r\n1\r\nPING\r\nPUB a 1\r\n2\r\n'
        b"PUB b 1\r\n3\r\nPING\r\nSUB a..b 2\r\nUNSUB 7\r\nPUB a 1\r\n4\r\n"
        b"PONG\r\n+OK\r\nINFO {}\r\n",
    ),
    Case(
        "an error that keeps the connection loses nothing around it",
        LOUD + b"SUB a 1\r\nPUB a 1\r\n1\r\nSUB .. 2\r\nPUB a 1\r\n2\r\nPUB _GR_.x 1\r\nx\r\n"
        b"PUB a 1\r\n3\r\nPUB a _R_.x 1\r\nx\r\nPUB a 1\r\n4\r\nPING\r\nSUB x. 3\r\n"
        b"PUB a 1\r\n5\r\n",
    ),
    *(
        Case(
            f"an error that closes keeps what came before: {bad!r}",
            LOUD
            + b"SUB a 1\r\nPUB a 1\r\n1\r\nPING\r\nPUB a 1\r\n2\r\n"
            + bad
            + b"PUB a 1\r\n3\r\n",
        )
        for bad in (b"BAD\r\n", b"PUB a\r\n", b"PUB a 1\r\nxx\r\n", b"SUB \r\n", b"CONNECT {\r\n")
    ),
]

CASES = [
    *SUBSCRIBE,
    *PUBLISH,
    *PEDANTIC,
    *UNSUBSCRIBE,
    *QUEUES,
    *NO_RESPONDERS,
    *HEADERS,
    *ORDER,
]
