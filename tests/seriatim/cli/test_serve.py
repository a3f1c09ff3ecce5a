"""`seriatim serve`: from flags, variables and a file to a lean process that serves."""

import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from ctypes import CDLL
from pathlib import Path
from typing import Any

import pytest

from broker.settings.resolve import Effective
from seriatim.cli.commands import run
from seriatim.cli.serve import settings_of
from tests.seriatim.cli.command import COMMAND, environment, refusal, seriatim
from tests.support.processes import SeriatimServer, ServerProcess
from tests.support.raw import RawClient


class Served(SeriatimServer):
    """By the command `seriatim serve`, which is what these tests are about."""

    by_command = True


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "-p 4333 -m -1 --frame header --no-journal --ring_bytes 0",
        "-DV --sync always --segment_bytes 1MiB --loop asyncio",
        "--listen 127.0.0.1:-1,frame=none --listen 127.0.0.1:-1 --exclude a.> --exclude=b",
        "--feed 239.0.0.1:5000,codec=binary --no-debug --sequencer_port -1",
        "-c FILE --max_payload 2MiB",
        "--sync never --sync=interval",
    ],
)
def test_given_arguments_when_read_without_typer_then_they_mean_what_they_mean_with_it(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('frame = "none"\n[limits]\nmax_payload = "1MiB"\n')
    words = ["--store_dir", str(tmp_path), *arguments.replace("FILE", str(file)).split()]
    monkeypatch.setenv("SERIATIM_LIMITS_MAX_ROUTES", "70000")
    served: list[Effective] = []
    monkeypatch.setattr("seriatim.cli.serve.become_broker", served.append)
    assert run(["serve", *words]) == 0
    assert served == [settings_of(words, os.environ)]


@pytest.mark.parametrize("word", ["--help", "-h", "--help-all", "--no-port", "--no_listen"])
def test_given_what_typer_answers_when_read_without_it_then_nothing_is_served(word: str) -> None:
    assert settings_of(["-p", "-1", word], {}) is None


def effective(*arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """The settings that `serve` would have with these arguments."""
    done = seriatim("config", "--all", *arguments, "--format", "toml", env=env)
    assert done.returncode == 0, done.stderr.decode()
    return tomllib.loads(done.stdout.decode())


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ("-p 4333", {"port": 4333}),
        ("-p=4333", {"port": 4333}),
        ("--port 4333", {"port": 4333}),
        ("-port=4333", {"port": 4333}),
        ("--p=4333", {"port": 4333}),
        ("-p 1 -p 2", {"port": 2}),
        ("-p -1", {"port": -1}),
        ("-a 127.0.0.1 -m 8222", {"host": "127.0.0.1", "http_port": 8222}),
        ("--addr h --http_port=-1", {"host": "h", "http_port": -1}),
        ("-net ::1", {"host": "::1"}),
        ("-n one -l log -P pid", {"server_name": "one", "log_file": "log", "pid_file": "pid"}),
        ("--name one --log log --pid pid", {"server_name": "one", "log_file": "log"}),
        ("-server_name=one", {"server_name": "one"}),
        ("-D", {"debug": True, "trace": False}),
        ("-V", {"debug": False, "trace": True}),
        ("-DV", {"debug": True, "trace": True}),
        ("--DV", {"debug": True, "trace": True}),
        ("-DV=false", {"debug": False, "trace": False}),
        ("--debug --no-debug", {"debug": False}),
        ("-D=true -V=0", {"debug": True, "trace": False}),
        ("-sd dir", {"store_dir": "dir"}),
        ("--store-dir=dir", {"store_dir": "dir"}),
        ("--max-payload 2MiB", {"limits": {"max_payload": "2MiB"}}),
        ("--ping_interval=500ms", {"limits": {"ping_interval": "500ms"}}),
        ("--no-journal", {"journal": {"enabled": False}}),
        ("--no_journal", {"journal": {"enabled": False}}),
        ("-no_journal", {"journal": {"enabled": False}}),
        ("--journal=false", {"journal": {"enabled": False}}),
        ("--no-journal --journal", {"journal": {"enabled": True}}),
        (
            "--sync always --retain_age 30d --retain-bytes 1GiB --segment_age 1d12h",
            {"journal": {"sync": "always", "retain_age": "30d", "segment_age": "36h"}},
        ),
        ("--exclude a.> --exclude b", {"sequencer": {"exclude": ["a.>", "b"]}}),
        ("--frame none --loop asyncio", {"frame": "none", "loop": "asyncio"}),
        (
            "--listen :1,frame=none --listen=h:2",
            {
                "listener": [
                    {"host": "0.0.0.0", "port": 1, "frame": "none", "tls": True},
                    {"host": "h", "port": 2, "frame": "netstring", "tls": True},
                ]
            },
        ),
    ],
)
def test_given_flags_in_nats_servers_ways_when_read_then_they_mean_this(
    arguments: str, settings: dict[str, Any]
) -> None:
    found = effective(*arguments.split())
    for name, value in settings.items():
        assert found[name] == (value if not isinstance(value, dict) else found[name] | value)


def test_given_feeds_as_flags_when_read_then_each_is_one() -> None:
    found = effective("--feed", "239.0.0.1:1,ttl=2", "-feed=[ff15::1]:2,codec=binary")["feeds"]
    assert [(feed["group"], feed["port"], feed["ttl"], feed["codec"]) for feed in found] == [
        ("239.0.0.1", 1, 2, "netstring"),
        ("ff15::1", 2, 1, "binary"),
    ]
    assert refusal("serve", "--feed", "10.0.0.1:5").startswith(
        '--feed: "10.0.0.1" is not a multicast address; give 224.0.0.0 to 239.255.255.255'
    )


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServerProcess]:
    """A broker with a pid file and everything else as it is by default."""
    arguments = ["--pid", str(tmp_path / "pid"), "--store_dir", str(tmp_path / "store")]
    with Served("netstring", arguments=arguments) as process:
        yield process


def test_given_a_broker_when_it_serves_then_nothing_that_it_does_not_need_is_in_its_memory(
    broker: ServerProcess,
) -> None:
    mapped = Path(f"/proc/{broker.pid}/maps").read_text()
    assert "pydantic" not in mapped
    assert "_ssl" not in mapped
    assert not re.search(r"/feed/|/broker/(port|caller)\.", mapped), "nobody asked for them"
    assert not any("http monitor" in line for line in broker.log)


def test_given_a_broker_when_it_starts_then_nothing_that_only_other_commands_need_is_imported() -> (
    None
):
    start = [sys.executable, "-X", "importtime", COMMAND, "serve", "--loop", "asyncio"]
    done = subprocess.run(
        [*start, "-l", "/nowhere/log"], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 1
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "broker.process" in imported
    heavy = {"typer", "click", "rich", "tomllib", "_ssl", "prometheus_client", "numpy", "aiohttp"}
    assert not heavy & imported


# A block that is freed raises the size from which glibc maps memory, unless that was set.
MAPPED = """
from ctypes import CDLL, Structure, c_int, c_size_t, c_void_p
from broker.settings.settings import Settings
from seriatim.cli.serve import tune_malloc

class Info(Structure):
    _fields_ = [(name, c_size_t) for name in "arena ordblks smblks hblks a b c d e f".split()]

library = CDLL(None)
library.malloc.restype, library.malloc.argtypes = c_void_p, [c_size_t]
library.free.argtypes = [c_void_p]
library.mallinfo2.restype = Info
tune_malloc(Settings(), {environment})
library.free(library.malloc(8 << 20))
before = library.mallinfo2().hblks
library.malloc(6 << 20)
print(library.mallinfo2().hblks - before)
"""


@pytest.mark.skipif(not hasattr(CDLL(None), "mallinfo2"), reason="another C library")
@pytest.mark.parametrize(
    ("given", "mapped"), [({}, 1), ({"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1"}, 0)]
)
def test_given_a_broker_when_it_starts_then_large_blocks_are_given_back_unless_the_user_decides(
    given: dict[str, str], mapped: int
) -> None:
    code = MAPPED.replace("{environment}", repr(given))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment()
    )
    assert (done.stdout, done.stderr) == (f"{mapped}\n", "")


def test_given_a_broker_when_it_starts_then_its_process_is_the_one_that_was_started(
    broker: ServerProcess, tmp_path: Path
) -> None:
    assert (tmp_path / "pid").read_text() == f"{broker.pid}\n"
    line = rf"\[{broker.pid}\] \d{{4}}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{{6}} \[(INF|WRN)\] \S"
    assert all(re.match(line, said) for said in broker.log)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_given_a_signal_to_stop_when_serving_then_it_ends_cleanly(
    broker: ServerProcess, tmp_path: Path, number: signal.Signals
) -> None:
    with RawClient(broker.port) as client:
        broker.signal(number)
        assert client.until_closed() == b""
    assert broker.wait() == 0
    assert not (tmp_path / "pid").exists()
    assert "Traceback" not in "".join(broker.log)


def test_given_variables_and_a_file_when_serving_then_the_broker_has_them(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('server_name = "file"\n[limits]\nmax_payload = "5KiB"\n')
    process = Served(limits={"max_control_line": 600}, arguments=["-c", str(file)])
    with process, RawClient(process.port) as client:
        assert client.info["server_name"] == "file"
        assert client.info["max_payload"] == 5120
        client.send(b"SUB " + b"a" * 700)
        assert client.until_closed() == b"-ERR 'maximum control line exceeded'\r\n"


def test_given_more_settings_than_a_pipe_holds_when_serving_then_they_arrive(
    tmp_path: Path,
) -> None:
    file = tmp_path / "broker.toml"
    subjects = ", ".join(f'"excluded.subject.number.{n}"' for n in range(5000))
    file.write_text(f"[sequencer]\nexclude = [{subjects}]\n")
    with (
        Served("netstring", arguments=["-c", str(file)]) as process,
        RawClient(process.port, b'CONNECT {"verbose":false}\r\nSUB > 1\r\n') as client,
    ):
        said = client.ask(b"PUB excluded.subject.number.4999 1\r\na\r\nPUB b 1\r\nb\r\n")
    assert [message.payload for message in said] == [b"a", b"8:1:1,1:b,,"]


def test_given_several_listeners_when_serving_then_each_has_its_frame() -> None:
    arguments = ["--listen", "127.0.0.1:-1,frame=none", "--listen", "127.0.0.1:-1,frame=header"]
    with Served("netstring", arguments=arguments) as process:
        said = [line for line in process.log if "Listening for client connections" in line]
        ports = [int(line.rpartition(":")[2]) for line in said]
        frames = []
        for port in ports:
            with RawClient(port) as client:
                frames.append(client.info["frame"])
    assert frames == ["netstring", "none", "header"]


def test_given_services_of_kubernetes_and_a_misspelt_variable_when_serving_then_one_warning() -> (
    None
):
    broker = Served("none", arguments=["-p", "-1"])
    broker.env |= {
        "SERIATIM_METRICS_SERVICE_HOST": "10.3.2.2",
        "SERIATIM_METRICS_PORT_8222_TCP_ADDR": "10.3.2.2",
        "SERIATIM_LIMITS_MAX_PAYLOD": "5",
    }
    with broker:
        warnings = [line.partition("[WRN] ")[2] for line in broker.log if "ignored" in line]
    assert warnings == [
        "SERIATIM_LIMITS_MAX_PAYLOD is ignored: there is no such setting; did you mean"
        " SERIATIM_LIMITS_MAX_PAYLOAD?"
    ]


def test_given_a_folder_called_broker_when_serving_from_beside_it_then_ours_runs(
    tmp_path: Path,
) -> None:
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "__init__.py").write_text("raise SystemExit('not ours')\n")
    (tmp_path / "broker" / "__main__.py").write_text("raise SystemExit('not ours')\n")
    done = seriatim("serve", "-p", "-1", "--log", "/nowhere/log", cwd=tmp_path)
    assert b"not ours" not in done.stderr
    assert b"/nowhere/log" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-l", "/nowhere/log"], "/nowhere/log"),
        (["-P", "/nowhere/pid"], "/nowhere/pid"),
        (["-a", "192.0.2.1"], "192.0.2.1"),
        (["-a", "no.such.host.invalid"], "no.such.host.invalid"),
        (
            ["--feed", "239.255.0.1:4000,interface=nowhere0"],
            "cannot feed 239.255.0.1:4000 by nowhe",
        ),
    ],
)
def test_given_what_only_the_broker_can_find_wrong_when_started_then_one_line_and_status_1(
    arguments: list[str], told: str
) -> None:
    env = {"RES_OPTIONS": "timeout:1 attempts:1", "LOCALDOMAIN": ""}  # of a machine without DNS
    done = seriatim("serve", "-p", "-1", *arguments, env=env)
    said = done.stderr.decode()
    assert done.returncode == 1
    assert "Traceback" not in said
    assert told in said.splitlines()[-1]


@pytest.mark.parametrize("flag", ["-p", "-m"])
def test_given_a_port_in_use_when_started_then_one_line_and_status_1(flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = {"-p": "-1", "-m": "-1", flag: str(port)}
        done = seriatim("serve", "-a", "127.0.0.1", *(w for pair in ports.items() for w in pair))
    said = done.stderr.decode()
    assert done.returncode == 1
    assert "Traceback" not in said
    assert f"cannot listen on 127.0.0.1:{port}" in said.splitlines()[-1]
    assert "in use" in said.splitlines()[-1]


def test_given_wrong_settings_when_started_then_nothing_starts(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    said = refusal("serve", "-P", str(pid_file), "-p", "x", "--frame", "y")
    assert said.startswith("2 settings are wrong:")
    assert not pid_file.exists()
