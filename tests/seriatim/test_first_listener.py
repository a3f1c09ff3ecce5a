"""The port that listens before the command is loaded: which it is, and what it does to clients."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.addresses import BACKLOG
from broker.settings.catalog import SETTINGS
from seriatim import first_listener
from seriatim.cli.flags import CONFIG, HELP, normalise
from seriatim.cli.serve import settings_of
from tests.seriatim.cli.command import COMMAND, environment, refusal
from tests.support.commands import COMMAND_S

ALL = "0.0.0.0"


@pytest.mark.parametrize(
    ("words", "variables", "file", "place"),
    [
        ("", {}, "", (ALL, 4222)),
        ("-p 4333", {}, "", (ALL, 4333)),
        ("-p=4333 --addr=::1", {}, "", ("::1", 4333)),
        ("-port 1 --port 4333 -net 127.0.0.1 -DV", {}, "", ("127.0.0.1", 4333)),
        ("", {"SERIATIM_PORT": "4333", "SERIATIM_HOST": "127.0.0.1"}, "", ("127.0.0.1", 4333)),
        ("-p 4444", {"SERIATIM_PORT": "4333"}, "", (ALL, 4444)),
        ("-p 4444", {"SERIATIM_PORT": ""}, "port = 1", (ALL, 4444)),
        ("-c FILE", {}, 'host = "127.0.0.1"  # here\nport=4333\n[tls]\n', ("127.0.0.1", 4333)),
        ("", {"SERIATIM_CONFIG": "FILE"}, "'port' = 4333", (ALL, 4333)),
        ("--config FILE", {"SERIATIM_PORT": "4555"}, "port = 4333", (ALL, 4555)),
        ("-c FILE", {}, "[websocket]\nport = 4333\nno_tls = true\n", (ALL, 4222)),
    ],
)
def test_given_flags_variables_and_a_file_then_the_guess_is_what_the_settings_say(
    words: str,
    variables: dict[str, str],
    file: str,
    place: tuple[str, int],
    tmp_path: Path,
) -> None:
    written = tmp_path / "broker.toml"
    written.write_text(file)
    given = words.replace("FILE", str(written)).split()
    env = {name: text.replace("FILE", str(written)) for name, text in variables.items()}
    assert first_listener.guess(given, env) == place
    effective = settings_of(given, {"HOME": str(tmp_path), **env})
    assert effective is not None
    assert (effective.settings.host, effective.settings.port) == place


@pytest.mark.parametrize(
    ("words", "variables", "file"),
    [
        ("-p -1", {}, ""),  # any free port
        ("-p 0", {}, ""),
        ("-p 1e3", {}, ""),
        ("-p 4333 -a localhost", {}, ""),  # a name, which takes time to look up
        ("--signal stop", {}, ""),
        ("-sl reload", {}, ""),
        ("--help", {}, ""),
        ("-p 4333 --cluster c1", {}, ""),  # a member lets clients in when its cluster does
        ("-p 4333", {"SERIATIM_CLUSTER_NAME": "c1"}, ""),
        ("-c FILE", {}, 'port = 4333\n[cluster]\nname = "c1"\n'),
        ("-c FILE", {}, "port = 4_333\n"),
        ("-c FILE", {}, 'server_name = """\nport = 1\n"""\n'),
        ("-c /nowhere/broker.toml", {}, ""),
        ("-c /dev/null", {}, ""),
        ("", {"SERIATIM_PORT": "tcp://10.0.0.1:4222"}, ""),  # Kubernetes'
        ("-p 4333", {"LISTEN_FDS": "1"}, ""),  # systemd listens
    ],
)
def test_given_a_doubt_then_there_is_no_guess(
    words: str, variables: dict[str, str], file: str, tmp_path: Path
) -> None:
    written = tmp_path / "broker.toml"
    written.write_text(file)
    given = words.replace("FILE", str(written)).split()
    assert first_listener.guess(given, variables) is None


def test_given_every_name_of_a_flag_then_the_guess_knows_it() -> None:
    def named(wanted: str) -> set[str]:
        names = {*SETTINGS, *(f.lstrip("-") for s in SETTINGS.values() for f in s.flags)}
        names |= {*HELP, *CONFIG}
        found = set()
        for name in names:
            done = normalise([f"-{name}", "x"], HELP | CONFIG)
            if done.arguments[:1] == [f"{wanted}=x"]:
                found.add(name)
        return found

    assert named(SETTINGS["port"].flag) == set(first_listener.PORT_FLAGS)
    assert named(SETTINGS["host"].flag) == set(first_listener.HOST_FLAGS)
    assert first_listener.BACKLOG == BACKLOG
    assert named("--config") == set(first_listener.CONFIG_FLAGS)


LOADED = """
import sys
seen = []
sys.addaudithook(lambda event, _: seen.append(set(sys.modules)) if event == "socket.bind" else None)
sys.argv = ["/bin/seriatim", "serve", "-a", "127.0.0.1", "-p", sys.argv[1]]
before = set(sys.modules)
import seriatim
from seriatim.first_listener import take
import socket
(fd,) = take()
print(socket.socket(fileno=fd).getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
print(*sorted(seen[0] - before))
"""


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port that nobody else is given: bound, without listening."""
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        yield keeper.getsockname()[1]


def test_given_the_command_then_it_listens_before_it_loads_anything(free_port: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, str(free_port)],
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    listens, loaded = done.stdout.splitlines()
    assert listens == "1"
    assert loaded == "_socket seriatim seriatim.first_listener"


def test_given_a_wrong_setting_then_the_error_is_the_same_and_nobody_listens_afterwards(
    free_port: int,
) -> None:
    place = ["-a", "127.0.0.1", "-p", str(free_port)]
    done = subprocess.run(
        [COMMAND, "serve", *place, "--max_payload", "much"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    words = refusal("serve", *place, "--max_payload", "much")
    assert done.stderr == f"seriatim: {words}\n"
    assert "--max_payload" in words
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", free_port)) == errno.ECONNREFUSED


def test_given_a_port_that_is_taken_then_the_error_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [COMMAND, "serve", "-a", "127.0.0.1", "-p", str(port), "-sd", str(tmp_path / "s")],
            env={**environment(), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    assert "--port and --addr" in done.stderr
    assert not (tmp_path / "s").exists()
