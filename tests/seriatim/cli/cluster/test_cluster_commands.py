"""`seriatim cluster`: where the commands take the cluster from, and what they refuse."""

import sys
from pathlib import Path

from broker.cluster.engine.etcd import EtcdAccess
from seriatim.cli.cluster.cluster_commands import ClusterFlags, access_of
from tests.seriatim.cli.command import refusal, seriatim
from tests.support.etcd_server import EtcdServer
from tests.support.keepers import cluster_name


def test_given_no_command_when_asked_then_help_lists_them() -> None:
    for arguments in (("cluster",), ("cluster", "--help")):
        done = seriatim(*arguments)
        assert done.returncode == 0
        assert b"init" in done.stdout
        assert b"status" in done.stdout


def test_given_no_cluster_or_etcd_when_asked_then_the_error_says_how_to_give_it() -> None:
    said = refusal("cluster", "status", "--etcd", "http://e:1")
    assert said == "cluster.name is missing; give --cluster NAME, or -c FILE"
    said = refusal("cluster", "status", "--cluster", "orders")
    assert said == "cluster.etcd is missing; give --etcd URL,URL,..., or -c FILE"


def test_given_wrong_values_when_asked_then_they_are_named_as_by_the_broker() -> None:
    said = refusal("cluster", "status", "--cluster", "a b", "--etcd", "e")
    assert '--cluster: "a b" is not the name of a cluster' in said
    assert '--etcd: "e" is not an endpoint of etcd' in said


def test_given_a_command_when_etcd_is_slow_then_it_has_more_patience_than_a_member() -> None:
    values = ClusterFlags(cluster="orders", etcd=["http://e:1"]).values()
    assert access_of(values).timeout >= 5 * EtcdAccess(()).timeout


def test_given_a_file_and_variables_when_asked_then_the_cluster_is_taken_from_them(
    etcd: EtcdServer, tmp_path: Path
) -> None:
    name = cluster_name()
    file = tmp_path / "broker.toml"
    file.write_text(
        f'store_dir = "{tmp_path}/one"\n[cluster]\nname = "{name}"\netcd = ["{etcd.endpoint}"]\n'
    )
    assert seriatim("cluster", "init", "-c", str(file)).returncode == 0
    env = {"SERIATIM_CLUSTER_NAME": name, "SERIATIM_CLUSTER_ETCD": etcd.endpoint}
    done = seriatim("cluster", "status", env=env)
    assert name in done.stdout.decode()


def test_given_no_aiohttp_when_asked_then_the_error_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['aiohttp'] = None\n")
    path = [str(tmp_path), *(one for one in sys.path if one.endswith("seriatim-sources"))]
    env = {"PYTHONPATH": ":".join(path)}
    given = ("--cluster", "orders", "--etcd", "http://127.0.0.1:1")
    said = refusal("cluster", "status", *given, env=env)
    assert said.endswith("pip install 'aiohttp>=3.9'")
