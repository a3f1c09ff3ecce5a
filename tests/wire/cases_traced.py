"""Cases about messages that are only traced: nobody gets them."""

from tests.wire.cases import ASKER, HEADS, Case

LINE = b"NATS/1.0\r\n"
DEST = b"Nats-Trace-Dest: tr\r\n"
ONLY = b"Nats-Trace-Only: true\r\n"
END = b"\r\n"
BOTH = LINE + DEST + ONLY + END


def hpub(headers: bytes, subject: bytes = b"a", payload: bytes = b"x", reply: bytes = b"") -> bytes:
    size = len(headers)
    line = b"HPUB %b %b %d %d\r\n" % (subject, reply, size, size + len(payload))
    return line + headers + payload + b"\r\n"


HEADERS = {
    "dest and only": BOTH,
    "the other way round": LINE + ONLY + DEST + END,
    "only": LINE + ONLY + END,
    "dest": LINE + DEST + END,
    "false": LINE + DEST + b"Nats-Trace-Only: false\r\n\r\n",
    "TRUE": LINE + DEST + b"Nats-Trace-Only: TRUE\r\n\r\n",
    "1": LINE + DEST + b"Nats-Trace-Only: 1\r\n\r\n",
    "On": LINE + DEST + b"Nats-Trace-Only: On\r\n\r\n",
    "yes": LINE + DEST + b"Nats-Trace-Only: yes\r\n\r\n",
    "t": LINE + DEST + b"Nats-Trace-Only: t\r\n\r\n",
    "no blank": LINE + DEST + b"Nats-Trace-Only:true\r\n\r\n",
    "blanks": LINE + b"Nats-Trace-Dest:\ttr\t\r\nNats-Trace-Only:\t true \t\r\n\r\n",
    "another blank": LINE + DEST + b"Nats-Trace-Only: true\x0b\r\n\r\n",
    "a CR": LINE + DEST + b"Nats-Trace-Only: true\r\r\n\r\n",
    "lower-case only": LINE + DEST + b"nats-trace-only: true\r\n\r\n",
    "lower-case dest": LINE + b"nats-trace-dest: tr\r\n" + ONLY + END,
    "empty dest": LINE + b"Nats-Trace-Dest: \r\n" + ONLY + END,
    "disabled": LINE + b"Nats-Trace-Dest: trace disabled\r\n" + ONLY + END,
    "disabled, then not": LINE + b"Nats-Trace-Dest: trace disabled\r\n" + DEST + ONLY + END,
    "then disabled": LINE + DEST + b"Nats-Trace-Dest: trace disabled\r\n" + ONLY + END,
    "a wildcard": LINE + b"Nats-Trace-Dest: a.*\r\n" + ONLY + END,
    "dest of two words": LINE + b"Nats-Trace-Dest: a b\r\n" + ONLY + END,
    "false, then true": LINE + DEST + b"Nats-Trace-Only: false\r\n" + ONLY + END,
    "true, then false": LINE + DEST + ONLY + b"Nats-Trace-Only: false\r\n\r\n",
    "empty, then true": LINE + DEST + b"Nats-Trace-Only: \r\n" + ONLY + END,
    "empty dest, then one": LINE + b"Nats-Trace-Dest: \r\n" + DEST + ONLY + END,
    "others around": LINE + b"A: b\r\n" + DEST + b"C:d\r\n" + ONLY + b"E: f\r\n\r\n",
    "within a value": LINE + b"X: Nats-Trace-Dest: tr\r\n" + ONLY + END,
    "within a name": LINE + b"XNats-Trace-Dest: tr\r\n" + ONLY + END,
    "a status": b"NATS/1.0 200 OK\r\n" + DEST + ONLY + END,
    "no first line": DEST + ONLY + END,
    "LF": LINE + b"Nats-Trace-Dest: tr\nNats-Trace-Only: true\n\r\n",
    "no end": LINE + DEST + ONLY,
    "no end of a line": LINE + DEST + b"Nats-Trace-Only: true",
    "no colon before": LINE + b"foo\r\n" + DEST + ONLY + END,
    "no colon between": LINE + DEST + b"foo\r\n" + ONLY + END,
    "a blank before the colon": LINE + DEST + b"Nats-Trace-Only : true\r\n\r\n",
    "an empty line": LINE + DEST + b"\r\n" + ONLY + END,
    "an empty name": LINE + b": x\r\n" + DEST + ONLY + END,
}

LOUD = b'CONNECT {"pedantic":false,"headers":true}\r\n'
STRICT = b'CONNECT {"verbose":false,"headers":true}\r\n'
SCRIPTS = {
    "verbose": LOUD + b"SUB a 1\r\n" + hpub(BOTH),
    "pedantic": STRICT + b"SUB a 1\r\n" + hpub(BOTH, b"a.*"),
    "reserved": LOUD + hpub(BOTH, b"_GR_.x"),
    "reserved reply": LOUD + hpub(BOTH, reply=b"_R_.x"),
    "no 503": ASKER + b"SUB r 1\r\n" + hpub(BOTH, reply=b"r"),
    "does not count": HEADS + b"SUB a 1\r\nUNSUB 1 1\r\n" + hpub(BOTH) + b"PUB a 1\r\ny\r\n",
    # not `*`: it would match the trace's subject, too, and nats-server's trace may come at any time
    "groups": HEADS + b"SUB a.b q 1\r\nSUB a.* q 2\r\n" + hpub(BOTH, b"a.b"),
    "an empty payload": HEADS + b"SUB a 1\r\n" + hpub(BOTH, payload=b""),
    "in the payload": HEADS + b"SUB a 1\r\n" + hpub(LINE + END, payload=BOTH),
}

CASES = [
    *(
        Case(f"trace only: {name}", HEADS + b"SUB a 1\r\n" + hpub(text))
        for name, text in HEADERS.items()
    ),
    *(Case(f"trace only: {name}", script) for name, script in SCRIPTS.items()),
]
