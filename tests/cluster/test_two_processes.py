"""A member's machine was copied, and both run: the older process of the two stops."""

import base64
import json
from typing import Any

from tests.support.cluster_start import ClusterOf


def test_given_a_later_process_of_the_same_member_in_etcd_then_the_older_one_stops() -> None:
    with ClusterOf(2) as cluster:
        server = cluster.members[1]
        file = cluster.folder / "store-1" / "cluster" / "member.json"
        member = json.loads(file.read_text())["member"]
        key = f"/seriatim/orders/member/{member}".encode()
        present = _kept(cluster, key)
        _put(cluster, key, present | {"run": present["run"] + 1})
        assert server.wait() == 1
        assert server.said(f"process {present['run'] + 1} serves as member {member} by now")


def _kept(cluster: ClusterOf, key: bytes) -> dict[str, Any]:
    answer = cluster.etcd.call("/v3/kv/range", {"key": base64.b64encode(key).decode()})
    found: dict[str, Any] = json.loads(base64.b64decode(answer["kvs"][0]["value"]))
    return found


def _put(cluster: ClusterOf, key: bytes, fields: dict[str, Any]) -> None:
    value = base64.b64encode(json.dumps(fields).encode()).decode()
    cluster.etcd.call("/v3/kv/put", {"key": base64.b64encode(key).decode(), "value": value})
