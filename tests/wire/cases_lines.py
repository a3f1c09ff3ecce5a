"""Cases about lines: CONNECT, verbs, blanks, wrong arguments, limits, the end of a payload."""

from tests.wire.cases import HEADS, LOUD, QUIET, Case, each, waiting

MAX_PAYLOAD = 1 << 20
MAX_LINE = 4096
LINE_END = b"\r\n"

CONNECT = [
    Case("no CONNECT at all", b""),
    Case("SUB and PUB before CONNECT", b"SUB a 1\r\nPUB a 1\r\nx\r\n"),
    *each(
        b"",
        b"CONNECT {}\r\n",
        b'CONNECT {"verbose":false}\r\n',
        b'CONNECT {"verbose":false}\n',
        b'connect\t{"verbose":false}\r\n',
        b'CoNnEcT  \t {"verbose":false}\t \r\n',
        b'CONNECT{"verbose":false}\r\n',
        b'CONNECT {"verbose":false}\r\r\n',
        b"CONNECT null\r\n",
        b"CONNECT\r\n",
        b"CONNECT \r\n",
        b"CONNECT {\r\n",
        b"CONNECT {a}\r\n",
        b"CONNECT {} x\r\n",
        b"CONNECT []\r\n",
        b"CONNECT 1\r\n",
        b'CONNECT "a"\r\n',
        b"CONNECT true\r\n",
        b'CONNECTx {"verbose":false}\r\n',
        b'CONNECT-{"verbose":false}\r\n',
        b'CONNECT {"verbose":"yes"}\r\n',
        b'CONNECT {"verbose":null}\r\n',
        b'CONNECT {"verbose":1}\r\n',
        b'CONNECT {"VERBOSE":false}\r\n',
        b'CONNECT {"Verbose":false,"foo":{"x":[1]}}\r\n',
        b'CONNECT {"verbose":false,"verbose":true}\r\n',
        b'CONNECT {"verbose":false,}\r\n',
        b"CONNECT {'verbose':false}\r\n",
        b'CONNECT {"verbose":NaN}\r\n',
        b'CONNECT {"verbose":false,"x":NaN}\r\n',
        b'CONNECT {"verbose":false,"x":01}\r\n',
        b'CONNECT {"verbose":false,"name":"\xff\xfe"}\r\n',
        b'CONNECT {"verbose":false,"name":"\\ud800"}\r\n',
        b'CONNECT {"verbose":false,"name":"a\x01b"}\r\n',
        b'CONNECT {"verbose":f\nalse}\r\n',
        b'CONNECT {"verbose":false,"lang":null,"headers":null}\r\n',
    ),
    *each(
        b'CONNECT {"verbose":false,',
        b'"protocol":0',
        b'"protocol":1',
        b'"protocol":2',
        b'"protocol":-1',
        b'"protocol":1.0',
        b'"protocol":1e0',
        b'"protocol":"1"',
        b'"protocol":99999999999999999999',
        b'"no_responders":true',
        b'"no_responders":true,"headers":true',
        b'"account":"x"',
        b'"account":"$G"',
        b'"account":""',
        b'"new_account":true',
        b'"user":"u","pass":"p"',
        b'"auth_token":"t"',
        b'"jwt":"j","nkey":"n","sig":"s"',
        b'"tls_required":true',
        b'"user":1',
        b'"name":1',
        b'"echo":1',
        b'"lang":1',
        b'"headers":"true"',
        suffix=b"}\r\n",
        about="CONNECT with",
    ),
    *each(
        b"",
        b'PING\r\nCONNECT {}\r\nCONNECT {"verbose":false}\r\nSUB a 1\r\n',
        b'CONNECT {"verbose":false}\r\nCONNECT {}\r\nSUB a 1\r\n',
        b'CONNECT {"verbose":false}\r\nCONNECT {bad\r\n',
        b'CONNECT {"verbose":false,"protocol":1}\r\nCONNECT {"protocol":0}\r\n',
        b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n',
        b'PING\r\nCONNECT {"verbose":false,"protocol":1}\r\nPING\r\n',
        b'CONNECT {"verbose":false,"protocol":1}\r\nSUB a 1\r\nPUB a 1\r\nx\r\nPING\r\n',
        b'CONNECT {"headers":true}\r\nCONNECT {"no_responders":true}\r\n'
        b'CONNECT {"headers":false}\r\n',
        about="CONNECT again",
    ),
]

VERBS = [
    *each(
        b"",
        b"ping\r\n",
        b"PiNg\n",
        b"PING \r\n",
        b"PING\t\t\r\n",
        b"PINGxyz\r\n",
        b"PING xyz\r\n",
        b"PING\rx\r\n",
        b"PONG\r\n",
        b"pongxyz\n",
        b"+OK\r\n",
        b"+OKxyz\r\n",
        b"+ok\n",
        b"-ERR\r\n",
        b"-ERR \r\n",
        b"-ERR foo\r\n",
        b"-ERR 'x'\r\n",
        b"-err\t'x'\r\n",
        b"-ERRx\r\n",
        b"INFO {}\r\n",
        b"info {}\n",
        b"INFO{}\r\n",
        b"INFO\t{}\r\n",
        b"INFO null\r\n",
        b'INFO {"max_payload":5}\r\n',
        b"INFO\r\n",
        b"INFO \r\n",
        b"INFO {bad\r\n",
        b"INFO {} x\r\n",
        b"INFO 1\r\n",
        b"INFO []\r\n",
        b"INFO x y z\r\n",
        about="verb",
    ),
    *each(
        b"PING\r\n",
        *(b"\r\n", b"\n", b" ", b"\t", b" PING\r\n", b"\x00", b"\xff", b"x", b"X\r\n"),
        *(b"PX", b"PIX", b"PINX", b"POX", b"PONX", b"PUX", b"PUBX", b"PUB\r\n", b"PUB\n"),
        *(b"SX", b"SUX", b"SUBX", b"SUB\r\n", b"SUB\n", b"UX", b"U ", b"UNSX", b"UNSUX"),
        *(b"UNSUBX", b"UNSUB\r\n", b"UNSUB\n", b"CX", b"COX", b"CONX", b"CONNX", b"CONNEX"),
        *(b"CONNECX", b"HX", b"HPX", b"HPUX", b"HPUBX", b"HPUB\r\n", b"HPUB\n", b"HMSG a 1"),
        *(b"MSG a 1 1\r\nx\r\n", b"M", b"RS+ a b\r\n", b"R", b"A+ x\r\n", b"A", b"L"),
        *(b"LS+ a b\r\n", b"INX", b"INFX", b"+x\r\n", b"+OX", b"-x", b"-EX", b"-ERX"),
        *(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"foo\r\nPING\r\n"),
        about="unknown",
    ),
    *waiting(
        QUIET,
        *(b"P", b"PI", b"PING", b"PO", b"PU", b"PUB", b"PUB ", b"PUB a 1", b"PUB a 1\r\n"),
        *(b"PUB a 1\r\nx", b"PUB a 1\r\nx\r", b"S", b"SUB a 1", b"U", b"UNSUB 1", b"C", b"CONNECT"),
        *(b'CONNECT {"verbose":true}', b"H", b"HP", b"HPUB ", b"HPUB a 1", b"I", b"IN", b"INFO {"),
        *(b"+", b"+O", b"+OK", b"-", b"-E", b"-ERR", b"-ERR x"),
    ),
]

ARGUMENTS = [
    *each(
        LOUD,
        *(b"SUB a", b"SUB a\t", b"SUB  ", b"SUB \t", b"SUB a b c d", b"SUB a b c", b"SUB a q 1"),
        *(b"SUB\ta\t1", b"SUB  a   1  ", b"SUB a 1\t", b"sub a 1", b"SUB a 1\r"),
        *(b"UNSUB ", b"UNSUB 1 2 3", b"UNSUB 9", b"UNSUB 9 1", b"UNSUB  9\t1 ", b"unsub 9"),
        *(b"UNSUB 9 x", b"UNSUB 9 -1", b"UNSUB 9 99999999999999999999999"),
        suffix=LINE_END,
    ),
    *each(
        QUIET + b"SUB > 1\r\n",
        *(b"PUB ", b"PUB  \t", b"PUB a", b"PUB a b c d", b"PUB a x", b"PUB a -1", b"PUB a +1"),
        *(b"PUB a 1x", b"PUB a 0x1", b"PUB a 1.0", b"PUB a 1e3", b"PUB a 1_0", b"PUB a b x"),
        *(b"PUB a 1000000000", b"PUB a 0000000001", b"PUB a 000000001", b"PUB a 999999999"),
        *(b"PUB a b 999999999", b"PUB x 18446744073709551614", b"PUB x 18446744073709551616"),
        *(b"PUB x 18446744073709551617", b"PUB x y 18446744073709551614", b"PUB a \xd9\xa1"),
        *(b"PUB\ta\tb\t1", b"PUB  a  b   1  ", b"pub a 1", b"PUB a 1\t", b"PUB \t a 1"),
        *(b"PUB a b 01", b"PUB a b 1"),
        suffix=b"\r\nx\r\n",
    ),
    *each(
        HEADS + b"SUB > 1\r\n",
        *(b"HPUB ", b"HPUB a", b"HPUB a 1", b"HPUB a b c 1 1", b"HPUB a x 1", b"HPUB a 1 x"),
        *(b"HPUB a 2 1", b"HPUB a -1 1", b"HPUB a 0 1", b"HPUB a 1 1", b"HPUB a b 1 1"),
        *(b"HPUB a b 0 1", b"HPUB a 00 001", b"HPUB a b 01 001", b"hpub\ta\tb\t1\t1"),
        *(b"HPUB  a  1   1  ", b"HPUB a 0000000001 1", b"HPUB a 1 0000000001"),
        *(b"HPUB a 2000000 1", b"HPUB a 1 2000000", b"HPUB a 2000000 2000000"),
        *(b"HPUB a 1 18446744073709551614", b"HPUB a 18446744073709551614 1"),
        suffix=b"\r\nx\r\n",
    ),
    Case("PUB line ends with LF", QUIET + b"SUB > 1\nPUB a 1\nx\r\n"),
    # nats-server drops a CR at the end of a piece, so that these two depend on the cuts there
    Case("PUB, CR CR LF", QUIET + b"SUB > 1\r\nPUB a 1\r\r\nx\r\n", uneven=True),
    Case("SUB with a CR between", LOUD + b"SUB a\r1\r\nPUB a 1\r\nx\r\n", uneven=True),
    Case("size as written is relayed", QUIET + b"SUB a 1\r\nPUB a 005\r\nhello\r\n"),
    Case("size 00", QUIET + b"SUB a 1\r\nPUB a 00\r\n\r\n"),
]

_SIZES = (MAX_LINE - 1, MAX_LINE, MAX_LINE + 1, MAX_LINE + 2)


def _line(verb: bytes, argument: bytes, what: str, prefix: bytes = QUIET) -> Case:
    return Case(f"{what} {len(argument)}", prefix + verb + argument + LINE_END)


LIMITS = [
    *(_line(b"SUB ", b"a" * (n - 2) + b" 1", "SUB argument of") for n in _SIZES),
    *(_line(b"SUB    ", b"a" * (n - 2) + b" 1", "SUB after blanks, of") for n in _SIZES),
    *(_line(b"SUB ", b"a 1" + b" " * (n - 3), "SUB with blanks to") for n in _SIZES),
    *(_line(b"UNSUB ", b"1" * n, "UNSUB argument of") for n in _SIZES),
    *(_line(b"PUB ", b"a" * (n - 2) + b" 0\r\n", "PUB argument and CRLF of") for n in _SIZES),
    *(_line(b"HPUB ", b"a" * (n - 4) + b" 0 0\r\n", "HPUB, CRLF of", HEADS) for n in _SIZES),
    *(_line(b"-ERR ", b"a" * n, "-ERR argument of") for n in _SIZES),
    *(_line(b"INFO ", b"{}" + b" " * (n - 2), "INFO argument of") for n in _SIZES),
    *(_line(b"CONNECT ", b"{}" + b" " * (n - 2), "CONNECT argument of") for n in _SIZES),
    *(_line(b"PING", b"a" * n, "PING and junk of") for n in (MAX_LINE, 9000)),
    *(_line(b"SUB" + b" " * n, b"a 1", f"{n} blanks, then") for n in (MAX_LINE, 9000)),
    *waiting(QUIET, *(b"SUB " + b"a" * n for n in _SIZES), about="no LF yet"),
    *waiting(QUIET, *(b"SUB " + b"a" * (n - 1) + b"\r" for n in _SIZES), about="no LF yet"),
    *waiting(QUIET, *(b"PUB " + b"a" * n for n in _SIZES), about="no LF yet"),
    *waiting(QUIET, b"PUB" + b" " * 9000, about="no LF yet"),
    Case("largest payload", QUIET + b"PUB a %d\r\n%s\r\n" % (MAX_PAYLOAD, b"x" * MAX_PAYLOAD)),
    Case("payload one too long", QUIET + b"PUB a %d\r\n" % (MAX_PAYLOAD + 1)),
    Case("reply and payload one too long", QUIET + b"PUB a b %d\r\n" % (MAX_PAYLOAD + 1)),
    Case("headers count", HEADS + b"HPUB a 10 %d\r\n" % (MAX_PAYLOAD + 1)),
    Case("only headers, too long", HEADS + b"HPUB a %d %d\r\n" % ((MAX_PAYLOAD + 1,) * 2)),
    Case(
        "what came before the violation stays",
        b"SUB a 1\r\nPING\r\nPUB a 1\r\nx\r\nPUB a %d\r\n" % (MAX_PAYLOAD + 1),
    ),
    Case("tiny: longest line", b"SUB %s 1\r\n" % (b"a" * 254), limits="tiny"),
    Case("tiny: line too long", b"SUB %s 1\r\n" % (b"a" * 255), limits="tiny"),
    Case("small: longest line", b"SUB %s 1\r\n" % (b"a" * 510), limits="small"),
    Case("small: line too long", b"SUB %s 1\r\n" % (b"a" * 511), limits="small"),
    Case("small: longest payload", b"SUB a 1\r\nPUB a 10\r\n0123456789\r\n", limits="small"),
    Case("small: payload too long", b"PUB a 10\r\n0123456789\r\nPUB a 11\r\n", limits="small"),
    Case("small: headers too long", HEADS + b"HPUB a 8 11\r\n", limits="small"),
    Case(
        "small: subscriptions",
        b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nSUB a 1\r\nSUB a..b 9\r\n"
        b"UNSUB 1\r\nSUB d 4\r\nSUB e 5\r\nPUB c 1\r\nx\r\nPUB d 1\r\nx\r\n",
        limits="small",
    ),
    Case(
        "small: a subscription that ends by itself makes room",
        b"SUB a 1\r\nSUB b 2\r\nUNSUB 1 1\r\nSUB c 3\r\nPUB a 1\r\nx\r\nSUB c 3\r\n",
        limits="small",
    ),
]

_ENDS = (b"x\n", b"xy\r\n", b"x\rx", b"x\r\r\n", b"xx", b"x\n\r\n", b"xPING\r\n", b"x \r\n")

PAYLOAD_ENDS = [
    *each(QUIET + b"SUB a 1\r\nPUB a 1\r\n", *_ENDS, about="PUB of 1"),
    *each(HEADS + b"SUB a 1\r\nHPUB a 1 1\r\n", *_ENDS, about="HPUB of 1 1"),
    *each(QUIET + b"SUB a 1\r\nPUB a 0\r\n", b"\n", b"x\r\n", b"\r\r\n", b"PING\r\n", about="none"),
    *each(
        QUIET + b"SUB a 1\r\n",
        b"PUB a 4\r\n\r\n\r\n\r\n",
        b"PUB a 3\r\n\x00\xff\n\r\n",
        b"PUB a 2\r\nok\r\nPUB a 3\r\nno\r\nPUB a 1\r\nx\r\n",
        about="payload",
    ),
    Case("a PING as payload", QUIET + b"SUB a 1\r\nPUB a 6\r\nPING\r\n\r\n", inner_pings=1),
]

HALF_CLOSED = [
    Case("all asked before is answered", b"SUB a 1\r\nPUB a 1\r\nx\r\nPING\r\n", half_close=True),
    Case("ten PINGs, then the end", QUIET + b"PING\r\n" * 10, half_close=True),
    Case("nothing at all", b"", half_close=True),
    Case("end inside a payload", LOUD + b"SUB a 1\r\nPUB a 5\r\nx", half_close=True),
]

CASES = [*CONNECT, *VERBS, *ARGUMENTS, *LIMITS, *PAYLOAD_ENDS, *HALF_CLOSED]
