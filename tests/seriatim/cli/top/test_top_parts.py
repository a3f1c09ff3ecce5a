"""What only some brokers have: members of a cluster, feeds, streams and their consumers."""

import json
from contextlib import closing

import pytest

from tests.seriatim.cli.top.test_plain_view import printed
from tests.seriatim.cli.top.watched import Watched, broker_with_pages, named, publish
from tests.support.cluster_start import ClusterOf
from tests.support.jetstream import Dialogue, Step
from tests.support.processes import STAND_IN
from tests.support.web import http_port

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")


def test_given_a_cluster_then_its_members_and_the_watermark_are_shown() -> None:
    with ClusterOf(2, more=["-m", "-1"]) as cluster:
        pages = f"127.0.0.1:{http_port(cluster.members[cluster.coordinator()])}"
        with Watched(pages, "-d", "0.2") as top:
            top.await_text("cluster orders  coordinator  watermark ")
            top.press("7")
            rows = top.await_text(" follower ")
        found = json.loads(printed(pages, "--json"))
    assert found["broker"]["cluster"]["role"] == "coordinator"
    (member,) = found["members"]
    assert any(row.startswith(member["name"][:12]) for row in rows)


def test_given_feeds_then_each_is_a_row_with_its_last_number() -> None:
    feed = "239.255.72.91:47291,interface=127.0.0.1,subject=orders.>"
    with (
        broker_with_pages("--feed", feed) as (broker, pages),
        named(broker, "desk") as client,
        Watched(pages, "-d", "0.2", size=(120, 24)) as top,
    ):
        publish(client, 12)
        top.press("6")
        top.await_screen(lambda rows: any("239.255.72.91:47291" in r and " 12 " in r for r in rows))


def test_given_consumers_then_it_says_what_is_pending_and_why_nothing_is_sent() -> None:
    with (
        broker_with_pages("-js") as (broker, pages),
        closing(Dialogue(broker.port)) as desk,
        Watched(pages, "-d", "0.2", size=(120, 24)) as top,
    ):
        stream = {"name": "ORDERS", "subjects": ["orders.>"]}
        desk.ask(Step("$JS.API.STREAM.CREATE.ORDERS", stream))
        config = {"durable_name": "billing", "ack_policy": "explicit"}
        consumer = {"stream_name": "ORDERS", "config": config}
        desk.ask(Step("$JS.API.CONSUMER.CREATE.ORDERS.billing", consumer))
        publish(desk.client, 12)
        top.press("4")
        rows = top.await_text("no pull request waits")
        (row,) = (row for row in rows if row.startswith("billing "))
        assert row.split()[:3] == ["billing", "ORDERS", "12"]
        top.press("enter")
        top.await_text("acks               explicit, within 30s")
        top.press("3")
        rows = top.await_text("orders.>")
        assert any(row.split()[:2] == ["ORDERS", "12"] for row in rows)
