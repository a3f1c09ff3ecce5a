"""Shows streams and consumers for a person: tables, and pages of facts."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from seriatim.cli.printable import print_table, printable
from seriatim.settings.amounts import show_duration

NEVER: Final = "0001-01-01T00:00:00Z"  # Go's zero time
SECOND_NS: Final = 1_000_000_000
SUBJECTS_SHOWN: Final = 8  # of a stream, in a table

Row = tuple[str, str]


def print_streams(streams: Sequence[dict[str, Any]]) -> None:
    """Print a table of streams."""
    titles = ("stream", "subjects", "messages", "bytes", "first", "last", "consumers", "last time")
    print_table(titles, [list(_stream_cells(one)) for one in streams], numbers=range(2, 7))


def _stream_cells(info: dict[str, Any]) -> Iterator[str]:
    state = info["state"]
    yield info["config"]["name"]
    yield subjects_of(info["config"].get("subjects") or [])
    yield f"{state['messages']:,}"
    yield f"{state['bytes']:,}"
    yield str(state["first_seq"])
    yield str(state["last_seq"])
    yield str(state["consumer_count"])
    yield moment(state["last_ts"])


def print_consumers(consumers: Sequence[dict[str, Any]]) -> None:
    """Print a table of consumers."""
    titles = (
        *("consumer", "kind", "filter", "delivered", "acknowledged", "pending", "unacked"),
        *("redelivered", "waiting", "last delivery"),
    )
    rows = [list(_consumer_cells(one)) for one in consumers]
    print_table(titles, rows, numbers=range(3, 9))


def _consumer_cells(info: dict[str, Any]) -> Iterator[str]:
    config, acks = info["config"], info["config"]["ack_policy"] != "none"
    yield info["name"]
    yield kind_of(config)
    yield filters_of(config)
    yield str(info["delivered"]["stream_seq"])
    yield str(info["ack_floor"]["stream_seq"]) if acks else "-"
    yield f"{info['num_pending']:,}"
    yield f"{info['num_ack_pending']:,}" if acks else "-"
    yield f"{info['num_redelivered']:,}" if acks else "-"
    yield "-" if config.get("deliver_subject") else f"{info['num_waiting']:,}"
    yield moment(info["delivered"].get("last_active", NEVER))


def stream_facts(info: dict[str, Any]) -> Iterator[Row]:
    """Yield what there is to say of a stream."""
    config, state = info["config"], info["state"]
    yield "stream", config["name"]
    if config.get("description"):
        yield "description", config["description"]
    yield "subjects", ", ".join(config.get("subjects") or [])
    yield "created", moment(info["created"])
    yield "messages", f"{state['messages']:,}, of {state['bytes']:,} bytes"
    if state["messages"]:
        yield "numbers", f"{state['first_seq']} to {state['last_seq']}"
        yield "times", f"{moment(state['first_ts'])} to {moment(state['last_ts'])}"
    elif state["last_seq"]:
        yield "last number", f"{state['last_seq']}, {moment(state['last_ts'])}"
    if state.get("num_deleted"):
        yield "deleted", f"{state['num_deleted']:,} messages, one by one"
    if "num_subjects" in state or not state["messages"]:  # SEQ does not count them
        yield "different subjects", f"{state.get('num_subjects', 0):,}"
    most = config.get("max_consumers", -1)
    yield "consumers", f"{state['consumer_count']}" + (f" of {most}" if most > 0 else "")
    options = ("no_ack", "allow_direct", "deny_delete", "deny_purge", "sealed")
    yield "options", ", ".join(one for one in options if config.get(one)) or "-"
    if config.get("duplicate_window"):
        yield "duplicates", f"known for {show_duration(config['duplicate_window'] / SECOND_NS)}"
    yield from _metadata(config)


def consumer_facts(info: dict[str, Any]) -> Iterator[Row]:
    """Yield what there is to say of a consumer."""
    config = info["config"]
    yield "consumer", f"{info['name']} of {info['stream_name']}"
    if config.get("description"):
        yield "description", config["description"]
    yield "kind", kind_of(config)
    yield "created", moment(info["created"])
    if config.get("deliver_subject"):
        group = config.get("deliver_group", "")
        yield "delivers to", config["deliver_subject"] + (f", group {group}" if group else "")
        yield "listeners", "yes" if info.get("push_bound") else "none"
    yield "filter", filters_of(config)
    yield "begins with", config["deliver_policy"]
    acks = config["ack_policy"]
    wait = show_duration(config.get("ack_wait", 0) / SECOND_NS)
    yield "acks", acks if acks == "none" else f"{acks}, within {wait}"
    if acks != "none":
        yield "sent at most", _limit(config.get("max_deliver", -1), "times")
        yield "unacked at most", _limit(config.get("max_ack_pending", -1), "messages")
    yield "delivered up to", _progress(info["delivered"])
    if acks != "none":
        yield "acknowledged up to", _progress(info["ack_floor"])
    yield "pending", f"{info['num_pending']:,} messages"
    if acks != "none":
        sent_again = f"{info['num_redelivered']:,} of them sent again"
        yield "unacknowledged", f"{info['num_ack_pending']:,} messages, {sent_again}"
    if not config.get("deliver_subject"):
        yield "waiting requests", f"{info['num_waiting']:,}"
    if info.get("paused"):
        yield "paused", f"for {show_duration(info['pause_remaining'] // SECOND_NS)}"
    yield from _metadata(config)


def print_facts(facts: Iterator[Row]) -> None:
    """Print facts, one a line."""
    for title, text in facts:
        print(f"{title:<20}{printable(text)}")


def kind_of(config: dict[str, Any]) -> str:
    """Say what kind of consumer it is."""
    way = "push" if config.get("deliver_subject") else "pull"
    return f"{way}, {'durable' if config.get('durable_name') else 'ephemeral'}"


def filters_of(config: dict[str, Any]) -> str:
    """Return what a consumer wants of its stream."""
    one = config.get("filter_subject", "")
    return subjects_of(config.get("filter_subjects") or ([one] if one else [])) or ">"


def subjects_of(subjects: Sequence[str]) -> str:
    """Return some subjects, and how many more there are."""
    more = len(subjects) - SUBJECTS_SHOWN
    return ", ".join(subjects[:SUBJECTS_SHOWN]) + (f" and {more} more" if more > 0 else "")


def moment(text: str) -> str:
    """Return a time of the API, in seconds."""
    return "-" if text == NEVER else f"{text[:10]} {text[11:19]} UTC"


def _limit(value: int, unit: str) -> str:
    return f"{value:,} {unit}" if value > 0 else "no limit"


def _progress(at: dict[str, Any]) -> str:
    """Say how far a consumer is: number, deliveries until then, and time."""
    if not at["consumer_seq"]:
        return "nothing yet"
    when = moment(at.get("last_active", NEVER))
    return (
        f"{at['stream_seq']}, with {counted(at['consumer_seq'], 'delivery', 'deliveries')}, {when}"
    )


def counted(count: int, one: str, many: str) -> str:
    """Return a count with its word."""
    return f"{count:,} {one if count == 1 else many}"


def _metadata(config: dict[str, Any]) -> Iterator[Row]:
    """Yield what users have noted, without what the server adds."""
    for name, text in (config.get("metadata") or {}).items():
        if not name.startswith("_nats."):
            yield "metadata", f"{name}: {text}"
