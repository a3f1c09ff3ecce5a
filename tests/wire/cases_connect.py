"""Cases about the content of CONNECT: JSON as Go reads it, and a CONNECT that is not the first."""

from tests.wire.cases import QUIET, Case, each

PUB = b"PUB a 1\r\nx\r\n"


def deep(opening: bytes, closing: bytes, levels: int) -> bytes:
    """An option that nobody knows, so many levels deep."""
    inner = b"1" if opening.endswith(b":") else b""
    return b'"x":' + opening * levels + inner + closing * levels


OBJECTS = each(
    b"CONNECT ",
    b'{"verbose":false,"VERBOSE":true}',
    b'{"VERBOSE":true,"verbose":false}',
    b'{"verbose":1,"verbose":false}',
    b'{"verbose":false,"verbose":1}',
    b'{"verbose":false,"verbose":null}',
    b'{"verbose":null,"verbose":false}',
    b'{"verbose":"false"}',
    b'{"verbose":0}',
    b'{"verbose":[]}',
    b'{"verbose":1,"protocol":2}',
    b'{"protocol":2,"verbose":1}',
    b'{"account":"x","verbose":1}',
    b'{"verb\\u006fse":false}',
    b'{"verbo\xc5\xbfe":false}',
    b'{"verbo\\u017fe":false}',
    b'{"verbo\xc3\x9fe":false}',
    b'{"n\xe2\x84\xaaey":1}',
    b'{"":1,"verbose":false}',
    b'  {  "verbose"  :  false  }  ',
    b'{"verbose":\tfalse}',
    b'{"verbose":\rfalse}',
    b'{"verbose":false}\x00',
    b'\x00{"verbose":false}',
    b'\xef\xbb\xbf{"verbose":false}',
    b'{"verbose":false}\x0b',
    b'{"verbose":false}\xc2\xa0',
    b'{\xc2\xa0"verbose":false}',
    b'{"verbose":false}{}',
    b'{"verbose":False}',
    b'{"verbose" false}',
    b"{verbose:false}",
    b'{"verbose":false /*c*/}',
    b"nul",
    b"null ",
    b"[" * 1500 + b"]" * 1500,
    b'{"verbose":false,"x":' + b"[" * 2000,
    b'{"verbose":false,' + deep(b"[", b"]", 1500) + b"]}",
    b'{"verbose":false,' + deep(b"[", b"]", 1500) + b',"echo":1}',
    b'{"verbose":false,' + deep(b"[", b"]", 1500) + b',"x":nul}',
    b'{"verbose":' + b"[" * 1000 + b"]" * 1000 + b"}",
    suffix=b"\r\n",
    about="CONNECT",
)

OPTIONS = each(
    b'CONNECT {"verbose":false,',
    b'"name":{}',
    b'"name":[]',
    b'"user":false',
    b'"pass":1',
    b'"auth_token":1',
    b'"version":1',
    b'"jwt":1',
    b'"sig":1',
    b'"proxy_sig":1',
    b'"proxy_sig":"x"',
    b'"remote_account":1',
    b'"remote_account":"x"',
    b'"tls_required":1',
    b'"new_account":1',
    b'"echo":null',
    b'"lang":"a","LANG":1',
    b'"pass":"a","PASS":"b"',
    b'"xkey":1,"host":1,"token":1,"password":1,"signature":1',
    b'"import":1',
    b'"import":[]',
    b'"import":null',
    b'"import":{"allow":1}',
    b'"import":{"Allow":[1]}',
    b'"import":{"allow":[null],"deny":null,"x":1}',
    b'"export":{"allow":"a"}',
    b'"export":{"deny":["a"]}',
    b'"protocol":-0',
    b'"protocol":1e2',
    b'"protocol":true',
    b'"protocol":null',
    b'"protocol":""',
    b'"protocol":[1]',
    b'"protocol":9223372036854775808',
    b'"protocol":2,"protocol":1',
    b'"protocol":2,"protocol":null',
    b'"account":"x","account":""',
    b'"no_responders":true,"NO_RESPONDERS":false',
    b'"no_re\xc5\xbfponder\xc5\xbf":true',
    b'"na\\u006de":1',
    b'"name":"\\x"',
    b'"name":"\\u12"',
    b'"name":"\\ud800\\u0041"',
    b'"name":"\x7f"',
    b'"name":"\t"',
    b'"\xff":1',
    b'"x":"\xed\xa0\x80\xc0\x80"',
    b'"x":"\\/"',
    b'"x":"\\\'"',
    b'"x":-',
    b'"x":1.',
    b'"x":.5',
    b'"x":1e',
    b'"x":+1',
    b'"x":1e999',
    b'"x":-0.0e-1',
    b'"x":' + b"9" * 4000,
    b'"x":Infinity',
    b'"x":nan',
    b'"x":nul',
    b'"x":[1,]',
    b'"user":"u" "x":1',
    deep(b"[", b"]", 500),
    deep(b"[", b"]", 1500),
    deep(b'{"a":', b"}", 500),
    suffix=b"}\r\n",
    about="CONNECT with",
)

DEEP = [
    Case(
        f"CONNECT with {levels} times {opening.decode()}",
        b'CONNECT {"verbose":false,' + deep(opening, closing, levels) + b"}\r\n",
        limits="long",
    )
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}"))
    for levels in (5000, 9999, 10000)
]
LONG = [
    Case(
        "CONNECT with 60000 digits",
        b'CONNECT {"verbose":false,"x":%b}\r\n' % (b"9" * 60_000),
        limits="long",
    )
]

AGAIN = [
    Case(f"CONNECT again: {name}", script)
    for name, script in {
        "what was subscribed is dropped": QUIET + b"SUB a 1\r\n" + QUIET + PUB,
        "the first one drops nothing": b"SUB a 1\r\n" + PUB + QUIET + PUB,
        "nor does an empty one": b"SUB a 1\r\nCONNECT {}\r\n" + PUB,
        "null is one too": b"CONNECT null\r\nSUB a 1\r\n" + QUIET + PUB,
        "and as the second": QUIET + b"SUB a 1\r\nCONNECT null\r\n" + PUB,
        "each of them drops": QUIET + b"SUB a 1\r\n" + QUIET * 2 + b"SUB a 2\r\n" + QUIET + PUB,
        "groups and wildcards": QUIET + b"SUB a q 1\r\nSUB * 2\r\n" + QUIET + PUB,
        "the sid is free": QUIET
        + b"SUB a 1\r\n"
        + PUB
        + QUIET
        + b"SUB b 1\r\n"
        + PUB
        + b"PUB b 1\r\ny\r\n",
        "so is its maximum": b'CONNECT {"pedantic":false}\r\nSUB a 1\r\nUNSUB 1 2\r\n'
        + PUB
        + b"CONNECT {}\r\nSUB a 1\r\n"
        + PUB * 3,
        "UNSUB of what is dropped": QUIET + b"SUB a 1\r\nCONNECT {}\r\nUNSUB 1\r\n" + PUB,
        "it answers by what it says": QUIET
        + b'SUB a 1\r\nCONNECT {"verbose":true}\r\n'
        + PUB
        + b"SUB a 1\r\n"
        + PUB,
        "a wrong protocol": QUIET + b'SUB a 1\r\nCONNECT {"protocol":2}\r\n' + PUB,
        "no headers": QUIET + b'SUB a 1\r\nCONNECT {"no_responders":true}\r\n' + PUB,
    }.items()
]
AGAIN.append(
    Case(
        "CONNECT again: its subscriptions no longer count",
        b"CONNECT {}\r\nSUB a 1\r\nSUB b 2\r\nCONNECT {}\r\nSUB c 3\r\nSUB d 4\r\nSUB e 5\r\n",
        limits="small",
    )
)

CASES = [*OBJECTS, *OPTIONS, *DEEP, *LONG, *AGAIN]
