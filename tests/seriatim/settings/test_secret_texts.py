"""Settings that are secret: where they may be kept, and that no message shows one."""

import os
from pathlib import Path

import pytest

from broker.settings.catalog import SETTINGS
from seriatim.settings.checked import WrongValue
from seriatim.settings.secret_texts import HIDDEN, secret_of

PASSWORD = SETTINGS["authorization.password"]


def wrong(text: str) -> str:
    with pytest.raises(WrongValue) as caught:
        PASSWORD.read(text)
    return str(caught.value)


@pytest.mark.parametrize("text", ["", "s3same", "with blank", "grüß dich", "environment", "ENV:X"])
def test_given_a_plain_text_when_read_then_it_is_the_secret(text: str) -> None:
    assert PASSWORD.read(text) == text
    assert PASSWORD.read_native(text) == text


def test_given_a_variable_when_read_then_its_value_is_the_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BROKER_SECRET", "file:not a name")
    assert PASSWORD.read("env:BROKER_SECRET") == "file:not a name"


@pytest.mark.parametrize(
    ("content", "secret"),
    [
        (b"s3same", "s3same"),
        (b"s3same\n", "s3same"),
        (b"s3same\r\n", "s3same"),
        (b" s3same ", " s3same "),
        ("grüß".encode(), "grüß"),
    ],
)
def test_given_a_file_when_read_then_its_content_is_the_secret(
    tmp_path: Path, content: bytes, secret: str
) -> None:
    (tmp_path / "secret").write_bytes(content)
    (tmp_path / "link").symlink_to("secret")
    assert PASSWORD.read(f"file:{tmp_path}/secret") == secret
    assert PASSWORD.read(f"file:{tmp_path}/link") == secret


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("env:", 'the environment variable "" is not set, or empty'),
        ("env:NOT_SET", 'the environment variable "NOT_SET" is not set, or empty'),
        ("env:EMPTY", 'the environment variable "EMPTY" is not set, or empty'),
        ("env:LINES", "it holds a character that cannot be printed; leave it out"),
        ("s3\tsame", "it holds a character that cannot be printed; leave it out"),
        ("file:", '"" cannot be read: No such file or directory'),
        ("file:missing", '"missing" cannot be read: No such file or directory'),
        ("file:.", '"." cannot be read: Is a directory'),
        ("file:pipe", '"pipe" is not a regular file; give a file with the secret'),
        ("file:a\0b", "'a\\x00b' cannot be the name of a file"),
        ("file:empty", '"empty" is empty'),
        ("file:long", '"long" is longer than 64 KiB, so it does not hold a secret'),
        ("file:bytes", '"bytes" is not a file of text'),
        ("file:lines", "it holds a character that cannot be printed; leave it out"),
        (HIDDEN, "[REDACTED] stands for a secret that is not shown; give the secret itself"),
    ],
)
def test_given_no_secret_where_it_should_be_when_read_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("LINES", "two\nlines")
    os.mkfifo("pipe")
    Path("empty").write_text("\n")
    Path("long").write_text("x" * 65537)
    Path("bytes").write_bytes(b"\xff\xfe")
    Path("lines").write_text("two\nlines\n")
    assert wrong(text) == why


def test_given_something_that_is_no_text_when_read_then_it_is_not_shown() -> None:
    with pytest.raises(WrongValue, match=r"^this value is not a string; give a string, or env"):
        PASSWORD.read_native(12345)


def test_given_a_secret_when_shown_then_it_is_hidden() -> None:
    assert PASSWORD.show("s3same") == HIDDEN
    assert PASSWORD.show("") == ""
    assert secret_of("s3same") == "s3same"
