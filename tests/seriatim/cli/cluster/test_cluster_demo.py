"""`seriatim cluster demo`: its script, which checks itself, and what it refuses."""

import subprocess

from tests.seriatim.cli.command import COMMAND, environment, refusal
from tests.support.etcd_server import etcd_program

DEMO_S = 300.0


def test_given_a_script_when_played_then_no_number_is_missing_and_none_came_twice() -> None:
    etcd_program()
    done = subprocess.run(
        [COMMAND, "cluster", "demo", "--script", "kill,stop,cut,handover"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=DEMO_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    for word in ("is killed", "is stopped with SIGSTOP", "is cut off", "hands over"):
        assert f"which coordinates, {word}" in done.stdout
    assert done.stdout.count("coordinates now, epoch ") == 4
    assert "the same at all three members, no hole, nothing twice" in done.stdout


def test_given_no_terminal_or_a_wrong_word_when_asked_then_it_says_what_to_give() -> None:
    said = refusal("cluster", "demo")
    assert said == "this is not a terminal; give --script kill,stop,cut"
    said = refusal("cluster", "demo", "--script", "kill,explode")
    assert said == "--script: explode is not one of kill, stop, cut, handover"


def test_given_no_etcd_when_asked_then_the_error_says_how_to_get_it() -> None:
    said = refusal("cluster", "demo", "--script", "kill", env={"PATH": "/nowhere"})
    assert said.startswith("etcd is not installed; ")
    assert "apt install etcd-server" in said
