"""`seriatim check FILE`: wrong settings, insecure ones, and certificates."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path

from tests.seriatim.cli.command import COMMAND, refusal, seriatim
from tests.support.secured import make_certificates, make_past_certificate


def checked(path: Path, *arguments: str) -> tuple[int, list[str]]:
    """The status, and the lines, with one blank between their words."""
    done = seriatim("check", str(path), *arguments)
    assert done.stderr == b""
    return done.returncode, [" ".join(line.split()) for line in done.stdout.decode().splitlines()]


def file_of(folder: Path, text: str) -> Path:
    path = folder / "broker.toml"
    path.write_text(text)
    return path


def test_given_a_right_file_then_it_says_so_and_the_status_is_0(tmp_path: Path) -> None:
    path = file_of(tmp_path, 'host = "127.0.0.1"\n')
    assert checked(path) == (0, [f"ok settings {path} can be used"])


def test_given_wrong_settings_then_all_are_named_and_the_status_is_1(tmp_path: Path) -> None:
    path = file_of(tmp_path, '[limits]\nmax_payload = "x"\npng_max = 1\n')
    status, lines = checked(path)
    assert status == 1
    assert [line.partition(" in ")[0] for line in lines] == [
        "failed settings limits.max_payload",
        "failed settings limits.png_max",
    ]


def test_given_no_such_file_then_it_failed(tmp_path: Path) -> None:
    status, (line,) = checked(tmp_path / "none.toml")
    assert status == 1
    assert line.endswith("cannot be read: No such file or directory")


def test_given_insecure_settings_then_they_are_warnings_and_the_status_is_2(
    tmp_path: Path,
) -> None:
    path = file_of(tmp_path, "http_port = 8222\n")
    status, lines = checked(path)
    assert status == 2
    assert [line.partition(" may ")[0] for line in lines[1:]] == [
        "warning security everybody who reaches 0.0.0.0:4222",
        "warning security everybody who reaches 0.0.0.0",
    ]


def test_given_what_a_terminal_would_obey_then_it_is_escaped(tmp_path: Path) -> None:
    status, (line,) = checked(file_of(tmp_path, '"a\\u001b[2J" = 1\n'))
    assert status == 1
    assert "a\\x1b[2J" in line
    assert line.isprintable()


def test_given_json_then_it_is_one_object(tmp_path: Path) -> None:
    path = file_of(tmp_path, 'host = "127.0.0.1"\n')
    done = seriatim("check", str(path), "--json")
    found = json.loads(done.stdout)
    assert (found["target"], found["status"]) == (str(path), "ok")
    assert found["checks"] == [{"level": "ok", "what": "settings", "text": f"{path} can be used"}]


def test_given_a_certificate_that_expires_soon_then_it_is_a_warning(tmp_path: Path) -> None:
    folder = make_certificates(tmp_path)  # for two days
    (folder / "server.key").chmod(0o644)
    text = f'host = "127.0.0.1"\n[tls]\ncert_file = "{folder}/server.pem"\n'
    path = file_of(tmp_path, text + f'key_file = "{folder}/server.key"\n')
    status, lines = checked(path)
    assert status == 2
    assert lines[1] == "ok tls the certificate and its key can be used"
    assert lines[2].startswith(f"warning tls {folder}/server.key: every user of this machine can")
    assert lines[3].startswith(f"warning certificate {folder}/server.pem expires soon, on ")


def test_given_a_key_of_another_certificate_then_it_failed(tmp_path: Path) -> None:
    folder = make_certificates(tmp_path)
    text = f'host = "127.0.0.1"\n[tls]\ncert_file = "{folder}/server.pem"\n'
    path = file_of(tmp_path, text + f'key_file = "{folder}/client.key"\n')
    status, lines = checked(path)
    assert status == 1
    assert "is not the key of the certificate" in lines[-1]


def test_given_a_certificate_of_the_past_then_it_failed(tmp_path: Path) -> None:
    pem, key = make_past_certificate(tmp_path)
    text = f'host = "127.0.0.1"\n[tls]\ncert_file = "{pem}"\nkey_file = "{key}"\n'
    status, lines = checked(file_of(tmp_path, text))
    assert status == 1
    assert lines[-1] == f"failed certificate {pem} has expired, on 2020-02-01 00:00 UTC"


def test_given_no_address_and_no_file_then_it_says_what_to_give() -> None:
    assert "is not an address; give a file, or one of nats://" in refusal("check", "ftp://x")
    assert "is not the address of a broker" in refusal("check", "nats://x:y:z")
    told = refusal("check", "nats://user:sesame@:0")
    assert "sesame" not in told
    assert "is not set" in refusal(
        *("check", "nats://x", "--user", "a", "--password", "env:NO_SUCH_VARIABLE")
    )


def test_given_a_terminal_then_long_lines_are_wrapped_below_their_column(tmp_path: Path) -> None:
    path = file_of(tmp_path, "")
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    environment = {name: text for name, text in os.environ.items() if name != "COLUMNS"}
    command = [COMMAND, "check", path.name]
    with subprocess.Popen(command, stdout=its, env=environment, cwd=tmp_path) as process:
        os.close(its)
        assert process.wait() == 2
    with open(ours, "rb", buffering=0) as terminal:
        lines = terminal.read(1 << 16).decode().splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 60
    begin = lines[0].index(path.name)
    assert any(line.startswith(" " * begin) and line[begin] != " " for line in lines)
    told = " ".join(" ".join(lines).split())
    assert told == " ".join(checked(path)[1]).replace(str(path), path.name)
