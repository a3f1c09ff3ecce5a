"""Makes Grafana's dashboard, seriatim.json, of the tables that the metrics are made of.

    .venv/bin/python deploy/grafana/make_dashboard.py            writes seriatim.json
    .venv/bin/python deploy/grafana/make_dashboard.py --check    says if it is not current

panels.toml says which metrics a panel shows. A name that no table has, and a metric that no panel
shows, end this program with an error.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker.monitor import cluster_figures, figures
from broker.monitor.figures import Counter, Table
from broker.monitor.histograms import HISTOGRAMS
from broker.monitor.slow_clients import LABELS, SLOW_CLIENT

FILE: Final = Path(__file__).with_name("seriatim.json")
PANELS: Final = Path(__file__).with_name("panels.toml")
SELECTOR: Final = 'job="$job",instance=~"$instance"'
PERIOD: Final = "[$__rate_interval]"
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, STAT_WIDTH, GRAPH_WIDTH = 24, 4, 12  # of the screen, in Grafana's columns
HEIGHTS: Final = {"row": 1, "stat": 4, "timeseries": 8}


class Known(NamedTuple):
    """A metric: its kind, and its labels besides `job` and `instance`."""

    kind: str  # gauge, counter or histogram
    labels: tuple[str, ...] = ()
    prefix: str = figures.PREFIX


def known_metrics() -> dict[str, Known]:
    """Return all metrics, by their names without prefix and suffix."""
    labelled: tuple[tuple[Table[Any], tuple[str, ...]], ...] = (
        *((table, ()) for table in (figures.BROKER, figures.ROUTES, figures.JOURNAL)),
        *((table, ()) for table in (figures.PORT, figures.STAGING, figures.LIMITS)),
        (figures.STREAMS, ()),
        (figures.STREAM, ("stream",)),
        (figures.CONSUMER, ("stream", "consumer")),
        *((table, ("feed",)) for table in (figures.FEED, figures.REREQUESTS)),
        (SLOW_CLIENT, LABELS),
    )
    known = {
        "messages": Known("counter", ("direction",)),
        "bytes": Known("counter", ("direction",)),
        "route_lookups": Known("counter"),
        "journal_info": Known("gauge", ("journal", "store", "sync")),
        "build_info": Known("gauge"),
        "feed_rerequests_refused": Known("counter", ("feed", "reason")),
        "cluster_engine_swaps": Known("counter", ("result",)),
        "cluster_info": Known("gauge"),
        "process_cpu_seconds": Known("counter", prefix=""),
        "process_resident_memory_bytes": Known("gauge", prefix=""),
    }
    for table, labels in labelled:
        for one in table:
            if one.metric:
                known[one.metric] = Known(
                    "counter" if isinstance(one, Counter) else "gauge", labels
                )
    for histogram in HISTOGRAMS:
        known[histogram.metric] = Known("histogram")
    for kind, listed, labels in (
        ("gauge", cluster_figures.GAUGES, ()),
        ("counter", cluster_figures.COUNTERS, ()),
        ("gauge", cluster_figures.BY_MEMBER, ("member",)),
    ):
        known |= {f"cluster_{key}": Known(kind, labels) for key, _ in listed}
    return known


class Writer:
    """Turns lines of panels into queries, and notes which metrics they show."""

    def __init__(self) -> None:
        self._known = known_metrics()
        self._shown: set[str] = set()

    def missing(self, left_out: dict[str, str]) -> list[str]:
        """Return the metrics that no panel shows."""
        return sorted(set(self._known) - self._shown - set(left_out))

    def target(self, line: str, letter: str, is_stat: bool) -> dict[str, Any]:
        """Return one line of a panel, as Grafana has it."""
        legend, _, promql = line.rpartition(": ")
        labels: list[str] = []
        query = re.sub(
            r"quantile\(([\d.]+), @(\w+)\)", lambda m: self._quantile(m[2], m[1]), promql
        )
        query = re.sub(
            r"([@%])(\w+)(?:\{(.*?)\})?",
            lambda m: self._metric(m[2], m[3], m[1] == "@", labels),
            query,
        )
        if "{{" not in legend:
            legend = " ".join([legend, *(f"{{{{{one}}}}}" for one in (*labels, "instance"))])
        target: dict[str, Any] = {"refId": letter, "datasource": SOURCE, "expr": query}
        target["legendFormat"] = legend.strip()
        return target | ({"instant": True} if is_stat else {})

    def _metric(self, name: str, more: str | None, is_whole: bool, labels: list[str]) -> str:
        base = re.sub(r"_(?:count|sum)\Z", "", name)
        known = self._known.get(name) or self._known[base]
        self._shown.add(name if name in self._known else base)
        labels += [one for one in known.labels if one not in labels]
        suffix = "_total" if known.kind == "counter" else ""
        selector = f"{SELECTOR},{more}" if more else SELECTOR
        selected = f"{known.prefix}{name}{suffix}{{{selector}}}"
        return f"rate({selected}{PERIOD})" if is_whole and suffix else selected

    def _quantile(self, name: str, share: str) -> str:
        assert self._known[name].kind == "histogram", f"{name} is no histogram"
        self._shown.add(name)
        buckets = f"rate({figures.PREFIX}{name}_bucket{{{SELECTOR}}}{PERIOD})"
        return f"histogram_quantile({share}, sum by (instance, le) ({buckets}))"


def panels_of(rows: list[dict[str, Any]], writer: Writer) -> Iterator[dict[str, Any]]:
    """Yield all panels, with a heading before those of each row."""
    number = left = top = height = 0  # height: of the panels of this line
    for row in rows:
        listed = [("row", row)]
        listed += [("stat", one) for one in row.get("stat", ())]
        listed += [("timeseries", one) for one in row.get("graph", ())]
        for kind, panel in listed:
            width = {"row": WIDTH, "stat": STAT_WIDTH}.get(kind, GRAPH_WIDTH)
            if left + width > WIDTH or height != HEIGHTS[kind]:
                left, top = 0, top + height
            height = HEIGHTS[kind]
            number += 1
            place = {"x": left, "y": top, "w": width, "h": height}
            left += width
            yield {"id": number, "type": kind, "title": panel["title"], "gridPos": place} | (
                {"collapsed": False, "panels": []}
                if kind == "row"
                else _contents(panel, kind == "stat", writer)
            )


def _contents(panel: dict[str, Any], is_stat: bool, writer: Writer) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel["unit"], "min": 0}
    if is_stat:
        options: dict[str, Any] = {
            "reduceOptions": {"calcs": ["lastNotNull"]},
            "colorMode": "value",
            "graphMode": "none",
            "textMode": "name" if "{{" in panel["lines"][0] else "value",
        }
    else:
        drawn = {"drawStyle": "line", "fillOpacity": 10, "lineWidth": 1}
        defaults["custom"] = drawn | {"showPoints": "never", "spanNulls": False}
        options = {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi"},
        }
    lines = enumerate(panel["lines"])
    return {
        "description": panel["about"],
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [writer.target(line, chr(ord("A") + at), is_stat) for at, line in lines],
        "options": options,
    }


def _variable(name: str, label: str, query: str, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "type": "query", "label": label, "datasource": SOURCE}
    made |= {"query": {"query": query, "refId": name}, "definition": query, "refresh": 2, "hide": 0}
    return made | more


def dashboard() -> dict[str, Any]:
    """Return the dashboard. Raises `SystemExit` if a metric and the panels do not fit."""
    writer, chosen = Writer(), f"label_values({figures.PREFIX}build_info"
    source = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    table = tomllib.loads(PANELS.read_text())
    try:
        panels = list(panels_of(table["row"], writer))
    except KeyError as error:
        raise SystemExit(
            f"make_dashboard: there is no metric {error}; see {PANELS.name}"
        ) from error
    if missing := writer.missing(table["left_out"]):
        raise SystemExit(
            f"make_dashboard: no panel shows {', '.join(missing)}; add them to {PANELS.name}"
        )
    return {
        "title": "Seriatim",
        "uid": "seriatim",
        "tags": ["seriatim", "nats"],
        "timezone": "browser",
        "schemaVersion": 39,
        "version": 4,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "annotations": {"list": []},
        "links": [],
        "templating": {
            "list": [
                source | {"label": "Prometheus", "current": {}, "hide": 0},
                _variable("job", "Job", f"{chosen}, job)", includeAll=False, multi=False),
                _variable(
                    *("instance", "Broker", f'{chosen}{{job="$job"}}, instance)'),
                    **{"includeAll": True, "multi": True, "allValue": ".+"},
                ),
            ]
        },
        "panels": panels,
    }


def main() -> int:
    """Write the file, or check it; return the exit status."""
    text = json.dumps(dashboard(), indent=2) + "\n"
    if "--check" in sys.argv[1:]:
        if FILE.read_text() == text:
            return 0
        print(f"{FILE.name} is not current: run deploy/grafana/{Path(__file__).name}")
        return 1
    FILE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
