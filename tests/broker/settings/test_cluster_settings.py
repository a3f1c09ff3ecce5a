"""The settings of a member of a cluster: what is missing, and what a cluster does not do."""

from collections.abc import Mapping
from typing import Any

import pytest

from broker.settings.errors import WrongSettings
from broker.settings.network_kinds import host_and_port
from broker.settings.resolve import resolve
from seriatim.settings.checked import WrongValue

MEMBER = {
    "cluster.name": "orders",
    "cluster.etcd": "etcd-1:2379,http://etcd-2:2379/",
    "cluster.advertise": "broker-1:4222",
    "cluster.secret_file": "/etc/seriatim/secret",
    "store_dir": "/nowhere",
}
ALONE = {"store_dir": "/nowhere"}
LOCAL = {
    "cluster.name": "orders",
    "cluster.etcd": "http://127.0.0.1:2379",
    "host": "127.0.0.1",
    "store_dir": "/nowhere",
}


def problems(flags: Mapping[str, Any]) -> list[str]:
    try:
        resolve(flags, {})
    except WrongSettings as wrong:
        return wrong.problems
    return []


def test_given_a_member_when_resolved_then_it_has_its_settings() -> None:
    cluster = resolve(MEMBER, {}).settings.cluster
    assert cluster.name == "orders"
    assert cluster.etcd == ("http://etcd-1:2379", "http://etcd-2:2379")
    assert cluster.advertise == "broker-1:4222"
    assert (cluster.port, cluster.min_in_sync, cluster.dead) == (6222, 2, 1.5)


def test_given_a_file_or_variables_when_resolved_then_a_cluster_is_set_there(tmp_path: Any) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(
        'host = "127.0.0.1"\nstore_dir = "/nowhere"\n'
        '[cluster]\nname = "orders"\netcd = ["https://e:2379", "https://f:2379"]\ndead = "3s"\n'
    )
    cluster = resolve({}, {"SERIATIM_CLUSTER_SLOW": "2s"}, str(file)).settings.cluster
    assert cluster.etcd == ("https://e:2379", "https://f:2379")
    assert (cluster.slow, cluster.dead) == (2.0, 3.0)


def test_given_all_on_loopback_when_resolved_then_neither_secret_nor_address_is_needed() -> None:
    assert problems(LOCAL) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cluster.etcd": ""}, "--etcd: is missing; give --etcd"),
        ({"cluster.advertise": ""}, "--advertise: is missing; `host` is 0.0.0.0"),
        ({"cluster.secret_file": ""}, "--cluster_secret: is missing; anyone who reaches"),
        ({"cluster.etcd_user": "root"}, "cluster.etcd_password_file: is missing"),
        ({"cluster.etcd_key": "k.pem"}, "cluster.etcd_cert: is missing"),
        ({"journal.enabled": False}, "leave out --no-journal"),
        ({"journal.retain_age": "1m"}, "is below journal.dedupe_window"),
        ({"cluster.dead": "500ms"}, "cluster.slow: 1s is not below cluster.dead, which is 500ms"),
        ({"cluster.stranded": "1s"}, "cluster.dead: 1.5s is not below cluster.stranded"),
        ({"cluster.port": "4222"}, "the port for members and the first listener would share"),
        ({"cluster.name": "a/b"}, '"a/b" is not the name of a cluster; give up to 64 letters'),
        ({"cluster.name": "x" * 65}, "is not the name of a cluster"),
        ({"cluster.etcd": "etcd-1"}, '"etcd-1" is not an endpoint of etcd; give http://HOST:PORT'),
        ({"cluster.etcd": "ftp://e:1"}, '"ftp://e:1" is not an endpoint of etcd'),
        ({"cluster.etcd": "http://e:1/v3"}, "is not an endpoint of etcd"),
        ({"cluster.etcd": "http://e:1,https://f:1"}, "some endpoints have http and others https"),
        ({"cluster.etcd": "e:1,http://e:1"}, "an endpoint is given twice"),
        ({"cluster.advertise": "broker-1"}, '"broker-1" is not an address; give HOST:PORT'),
        ({"cluster.min_in_sync": "0"}, "0 is below 1"),
    ],
)
def test_given_a_member_when_something_does_not_fit_then_it_says_what_to_do(
    changes: dict[str, Any], said: str
) -> None:
    (problem,) = problems({**MEMBER, **changes})
    assert said in problem


@pytest.mark.parametrize("use", ["on", "optional"])
def test_given_tls_between_members_when_files_are_missing_then_each_is_named(use: str) -> None:
    files = {"tls.cert_file": "cert.pem", "tls.ca_file": "ca.pem"}
    for path in files:
        others = {one: value for one, value in files.items() if one != path}
        (problem,) = problems({**MEMBER, **others, "cluster.tls": use})
        assert f"{path}: is missing; members speak TLS with it" in problem
    assert problems({**MEMBER, **files, "cluster.tls": use}) == []
    assert problems({**MEMBER, "cluster.tls": "auto"}) == []


@pytest.mark.parametrize("path", ["cluster.etcd", "cluster.advertise", "cluster.secret_file"])
def test_given_no_cluster_when_its_settings_are_given_then_refused(path: str) -> None:
    (problem,) = problems({**ALONE, path: MEMBER[path]})
    assert "does nothing without a cluster; give --cluster NAME" in problem


@pytest.mark.parametrize(
    "changes",
    [
        {"host": "0.0.0.0", "cluster.advertise": "127.0.0.1:4222"},
        {"cluster.host": "10.0.0.1"},
        {"cluster.advertise": "broker-1:4222"},
        {"cluster.member_advertise": "10.0.0.1:6222"},
    ],
)
def test_given_any_address_beyond_loopback_when_there_is_no_secret_then_refused(
    changes: dict[str, str],
) -> None:
    (problem,) = problems({**LOCAL, **changes})
    assert "cluster.secret_file: is missing" in problem
    assert problems({**LOCAL, **changes, "cluster.secret_file": "secret"}) == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("broker-1:4222", ("broker-1", 4222)),
        ("10.0.0.1:1", ("10.0.0.1", 1)),
        ("[fd00::1]:65535", ("fd00::1", 65535)),
    ],
)
def test_given_an_address_when_read_then_it_has_a_host_and_a_port(
    text: str, parts: tuple[str, int]
) -> None:
    assert host_and_port(text) == parts


@pytest.mark.parametrize(
    "text",
    ["", ":1", "a:", "a:0", "a:65536", "a:x", "a:٣", "fd00::1:4222", "a b:1", "u@a:1", "[]:1"],
)
def test_given_input_that_is_no_address_when_read_then_refused(text: str) -> None:
    with pytest.raises(WrongValue, match="is not an address; give HOST:PORT"):
        host_and_port(text)
