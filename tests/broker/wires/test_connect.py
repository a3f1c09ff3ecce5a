"""What CONNECT may contain: read as nats-server reads it, and refused as it refuses."""

from typing import Any

import pytest

from broker.wires.connect import FRAMES, check_options, read_object, read_options
from parser import errors


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (b"{}", {}),
        (b"null", {}),
        (b' {"verbose":false} ', {"verbose": False}),
        (b'{"verbose":false}\r', {"verbose": False}),
        (b'{"VERBOSE":false,"Echo":true}', {"verbose": False, "echo": True}),
        (b'{"verbose":true,"verbose":false}', {"verbose": False}),
        (b'{"verbose":null,"echo":true}', {"echo": True}),
        (b'{"unknown":{"a":[1,2]},"lang":"python"}', {"lang": "python"}),
        (b'{"protocol":1}', {"protocol": 1}),
        (b'{"protocol":-1}', {"protocol": -1}),
        (b'{"name":"\xff"}', {"name": "\ufffd"}),
        (b'{"name":"\\ud800"}', {"name": "\ufffd"}),
        (
            b'{"user":"u","pass":"p","auth_token":"t"}',
            {"user": "u", "pass": "p", "auth_token": "t"},
        ),
        (b'{"tls_required":true}', {"tls_required": True}),
        (b'{"frame":"none"}', {"frame": "none"}),
        (b'{"headers":true,"no_responders":true}', {"headers": True, "no_responders": True}),
    ],
)
def test_given_options_then_they_are_read_by_their_lower_case_names(
    text: bytes, options: dict[str, Any]
) -> None:
    assert read_options(text) == options


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"x",
        b"{",
        b"{} x",
        b"[]",
        b"1",
        b"true",
        b'"a"',
        b'{"verbose":01}',
        b'{"verbose":false,}',
        b"{'verbose':false}",
        b'{"verbose":1}',
        b'{"verbose":"yes"}',
        b'{"echo":0}',
        b'{"name":1}',
        b'{"lang":true}',
        b'{"user":1}',
        b'{"frame":1}',
        b'{"protocol":"1"}',
        b'{"protocol":1.0}',
        b'{"protocol":1e0}',
        b'{"protocol":true}',
        b'{"protocol":99999999999999999999}',
        b'{"protocol":-99999999999999999999}',
        b'{"name":NaN}',
        b'{"name":Infinity}',
        b'{"x":-Infinity}',
        b'{"name":"a\nb"}',
        b"\xff",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"protocol":' + b"9" * 5000 + b"}",
    ],
    ids=lambda text: repr(text[:24])[2:-1],
)
def test_given_no_options_then_the_client_is_hung_up_on_without_a_word(text: bytes) -> None:
    with pytest.raises(errors.BadConnect) as caught:
        read_options(text)
    assert caught.value.reply == b""
    assert len(str(caught.value)) < 6000


def test_given_an_object_then_its_values_are_not_judged() -> None:
    assert read_object(b'{"verbose":1,"verbose":2}') == [("verbose", 1), ("verbose", 2)]


@pytest.mark.parametrize("options", [{}, {"protocol": 0}, {"protocol": 1}, {"account": ""}])
def test_given_options_that_go_together_then_nothing_is_reported(options: dict[str, Any]) -> None:
    check_options(options)


@pytest.mark.parametrize("frame", FRAMES)
def test_given_a_frame_of_ours_then_it_is_taken(frame: str) -> None:
    check_options({"frame": frame})


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"protocol": 2}, errors.BadProtocol),
        ({"protocol": -1}, errors.BadProtocol),
        ({"account": "$G"}, errors.NoSuchAccount),
        ({"new_account": True}, errors.NoSuchAccount),
        ({"no_responders": True}, errors.NoRespondersNeedsHeaders),
        ({"no_responders": True, "headers": False}, errors.NoRespondersNeedsHeaders),
        ({"frame": "xml"}, errors.BadFrameOption),
        ({"frame": ""}, errors.BadFrameOption),
    ],
)
def test_given_options_that_are_not_allowed_then_the_client_is_informed(
    options: dict[str, Any], fault: type[errors.WireError]
) -> None:
    with pytest.raises(fault):
        check_options(options)
