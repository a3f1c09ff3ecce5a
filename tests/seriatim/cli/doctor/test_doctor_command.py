"""`seriatim doctor`: its exit status, its two forms, settings, and Kubernetes' variables."""

import json
from pathlib import Path

import pytest

from tests.seriatim.cli.command import refusal, seriatim
from tests.seriatim.cli.doctor.doctor_runs import doctor


def test_given_a_warning_then_the_status_is_2_and_the_text_says_why_and_what_to_do() -> None:
    done = seriatim("doctor", "--no-journal", "-a", "127.0.0.1", "--max_connections", "999999")
    lines = done.stdout.decode().splitlines()
    (at,) = [at for at, line in enumerate(lines) if line.startswith("warning  open files ")]
    assert lines[at + 1].lstrip().startswith("why: more than ")
    assert lines[at + 2].lstrip().startswith("do:  LimitNOFILE=1000063 in systemd's unit")
    assert lines[at + 1].index("why") == lines[at].index("soft")
    assert (done.returncode, done.stderr) == (2, b"")


def test_given_a_wrong_file_then_it_is_a_finding_and_the_machine_is_examined(
    tmp_path: Path,
) -> None:
    path = tmp_path / "broker.toml"
    path.write_text('host = "127.0.0.1"\n[limits]\nmax_payload = "x"\n')
    done = seriatim("doctor", "-c", str(path), "--json")
    page = json.loads(done.stdout)
    assert (done.returncode, page["status"], page["target"]) == (1, "failed", str(path))
    about = [(one["level"], one["text"]) for one in page["checks"] if one["what"] == "settings"]
    assert about[0][0] == "failed"
    assert about[0][1].startswith(f"limits.max_payload in {path}: ")
    assert about[1] == (
        "warning",
        "what depends on them is not examined: limits, store, feeds",
    )
    examined = {one["what"] for one in page["checks"]}
    assert examined >= {"seriatim", "system", "names", "clock"}
    assert "open files" not in examined


def test_given_insecure_settings_then_they_are_warnings_as_of_check() -> None:
    done = seriatim("doctor", "--no-journal", "--json")
    (found,) = [one for one in json.loads(done.stdout)["checks"] if one["what"] == "security"]
    assert found["level"] == "warning"
    assert found["text"].startswith("everybody who reaches 0.0.0.0:4222 may read and publish")


def test_given_wrong_arguments_then_it_is_refused_as_serve_does() -> None:
    assert refusal("doctor", "--prot", "1") == "--prot: there is no such flag; did you mean --port?"
    assert refusal("doctor", "--port", "x").startswith('--port: "x" is not a port')
    for wrong in ("ftp://user:sesame@x", "http://[::1"):
        told = refusal("doctor", "--compare", wrong)
        assert "is not the address of monitoring; give http://HOST:PORT" in told
        assert "sesame" not in told


def test_given_variables_of_kubernetes_then_it_names_them_and_serve_ignores_them() -> None:
    links = {
        "SERIATIM_PORT": "tcp://10.0.0.1:4222",
        "SERIATIM_SERVICE_HOST": "10.0.0.1",
        "SERIATIM_PORT_4222_TCP_ADDR": "10.0.0.1",
    }
    examined = doctor("--max_connections", "10", env=links)
    found = examined.only("variables")
    assert found.level == "hint"
    assert found.text.startswith("SERIATIM_PORT=tcp://10.0.0.1:4222 and 2 more: Kubernetes sets")
    assert "enableServiceLinks: false" in found.do
    assert [one.level for one in examined.about("settings")] == ["ok"]
    assert b"0.0.0.0:4222" in seriatim("doctor", "--no-journal", env=links).stdout


@pytest.mark.parametrize("variable", ["", "SERIATIM_LIMITS_MAX_PAYLOAD"])
def test_given_other_variables_then_none_is_taken_for_kubernetes(variable: str) -> None:
    assert doctor(env={variable: "2MiB"} if variable else {}).about("variables") == []
