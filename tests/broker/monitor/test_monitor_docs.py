"""The page about monitoring, the dashboard and the alerts use metrics that exist.

Those of a cluster are in tests/cluster/test_cluster_operating.py, which has one.
"""

import json
import re

import pytest

from tests.support.jetstream import Dialogue, Step
from tests.support.multicast import new_group
from tests.support.places import ROOT
from tests.support.serving import feed_text
from tests.support.web import get, http_port, monitored

DASHBOARD = ROOT / "deploy" / "grafana" / "seriatim.json"
RULES = [ROOT / "deploy" / "prometheus" / name for name in ("alerts.yml", "rules.yml")]
SAMPLES = {"histogram": ("_bucket", "_count", "_sum")}  # by kind of a metric
SAMPLE = re.compile(r"_(?:bucket|count|sum)\Z")
METRIC = re.compile(r"(?<![\w:])((?:seriatim(?!_cluster)|process)_[a-z_]+)")  # and no recorded rule


@pytest.fixture(scope="module")
def names() -> set[str]:
    """The samples of a broker with a stream and a feed that can be asked again; no labels."""
    feed = feed_text(new_group(), codec="moldudp64", rerequest_port=-1)
    with monitored("netstring", "--jetstream", "--feed", feed) as process:
        dialogue = Dialogue(process.port)
        dialogue.ask(Step("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]}))
        config = {"stream_name": "S", "config": {"durable_name": "C"}}
        dialogue.ask(Step("$JS.API.CONSUMER.DURABLE.CREATE.S.C", config))
        dialogue.close()
        text = get(http_port(process), "/metrics").body.decode()
    kinds = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    return {name + end for name, kind in kinds for end in SAMPLES.get(kind, ("",))}


def whole(some: set[str], names: set[str]) -> set[str]:
    """Those of our metrics that these samples are of: a histogram has several."""
    histograms = {name.removesuffix("_bucket") for name in names if name.endswith("_bucket")}
    own = {base if (base := SAMPLE.sub("", name)) in histograms else name for name in some}
    return {name for name in own if name.startswith("seriatim_")}


def test_given_the_metrics_when_looked_up_then_the_page_lists_exactly_them(names: set[str]) -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    listed = re.findall(r"^\| `(seriatim_(?!cluster)[a-z_]+)", page, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == whole(names, names)


def test_given_the_dashboard_when_read_then_every_panel_shows_a_metric_there_is(
    names: set[str],
) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    shown = set()
    for panel in dashboard["panels"]:
        assert panel["title"]
        if panel["type"] == "row":
            continue
        assert panel["description"].endswith(".")
        for target in panel["targets"]:
            used = set(METRIC.findall(target["expr"]))
            assert used or "seriatim_cluster_" in target["expr"], target["expr"]
            assert used <= names, target["expr"]
            shown |= used
    variables = {
        name
        for v in dashboard["templating"]["list"]
        for name in METRIC.findall(
            v["query"] if isinstance(v["query"], str) else v["query"]["query"]
        )
    }
    assert variables <= names
    left_out = {
        "seriatim_route_lookups_total",  # the messages that came in, shown already
        "seriatim_streams_subjects",  # of each stream, shown already
        "seriatim_streams_left_out_messages_total",  # the log says so
    }
    assert whole(names, names) - whole(shown, names) - variables == left_out


def test_given_the_dashboard_when_laid_out_then_no_panels_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    panels = json.loads(DASHBOARD.read_text())["panels"]
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_given_the_alerts_when_read_then_they_watch_metrics_there_are(names: set[str]) -> None:
    used = {name for file in RULES for name in METRIC.findall(file.read_text())}
    assert used
    assert used <= names


def test_given_a_page_in_the_docs_when_asked_for_then_it_is_there() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    paths = re.findall(r"^\| `(/\w+)` \|", page, re.MULTILINE)
    assert len(paths) == 16
    with monitored() as process:
        assert {get(http_port(process), path).status for path in paths} == {200}
