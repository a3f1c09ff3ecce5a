"""The settings of feeds: from flags, variables and a file, and every invalid one reported."""

from pathlib import Path
from typing import Any

import pytest

from broker.settings.catalog import FEEDS
from broker.settings.errors import WrongSettings
from broker.settings.feed_settings import FeedSettings
from broker.settings.resolve import resolve
from broker.settings.tables import show_entry
from seriatim.cli.explain import as_markdown, as_toml

GROUP = "239.0.0.1:1234"


def feeds(*texts: str, file: Path | None = None, **environment: str) -> tuple[FeedSettings, ...]:
    flags = {"feeds": list(texts)} if texts else {}
    return resolve(flags, environment, str(file) if file else None).settings.feeds


def problems(
    *texts: str, flags: dict[str, Any] | None = None, file: Path | None = None
) -> list[str]:
    given = {"feeds": list(texts)} if texts else {}
    with pytest.raises(WrongSettings) as caught:
        resolve({**given, **(flags or {})}, {}, str(file) if file else None)
    return caught.value.problems


def test_given_only_a_group_and_a_port_then_the_rest_is_cquencers_way() -> None:
    (feed,) = feeds(GROUP)
    assert feed == FeedSettings(group="239.0.0.1", port=1234)
    assert (feed.codec, feed.packing_bytes, feed.ttl, feed.loop) == ("netstring", 0, 1, True)
    assert (feed.label, feed.address, feed.datagram_max) == (GROUP, GROUP, 65507)


def test_given_every_option_in_a_text_then_all_is_taken() -> None:
    text = (
        "[ff15::1]:1234,name=market,interface=eth0,ttl=3,loop=no,send_buffer=2MiB,subject=orders.>,"
        "codec=moldudp64,packing=true,datagram_bytes=1400,segmentation=off,heartbeat=500ms,"
        "rerequest_port=-1,rerequest_host=::1,rerequest_rate=3MiB,rerequest_total_rate=2MiB"
    )
    (feed,) = feeds(text)
    assert feed == FeedSettings(
        name="market",
        group="ff15::1",
        port=1234,
        interface="eth0",
        ttl=3,
        loop=False,
        send_buffer=2 << 20,
        subject="orders.>",
        codec="moldudp64",
        packing=True,
        datagram_bytes=1400,
        segmentation=False,
        heartbeat=0.5,
        rerequest_port=-1,
        rerequest_host="::1",
        rerequest_rate=3 << 20,
        rerequest_total_rate=2 << 20,
    )
    assert (feed.label, feed.address, feed.datagram_max) == ("market", "[ff15::1]:1234", 65487)
    assert feeds(show_entry(FEEDS, feed)) == (feed,)


def test_given_packing_then_it_fills_what_ethernet_carries() -> None:
    assert feeds(f"{GROUP},packing=true")[0].packing_bytes == 1472
    assert feeds("[ff15::1]:1234,packing=true")[0].packing_bytes == 1452
    assert feeds(f"{GROUP},packing=true,datagram_bytes=8972")[0].packing_bytes == 8972


def test_given_feeds_in_a_file_a_variable_and_flags_then_the_strongest_are_taken(
    tmp_path: Path,
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(
        '[[feeds]]\ngroup = "239.0.0.1"\nport = 1\nheartbeat = "2s"\n'
        '[[feeds]]\ngroup = "ff15::2"\nport = 2\ncodec = "binary"\npacking = true\n'
    )
    assert feeds(file=file) == (
        FeedSettings(group="239.0.0.1", port=1, heartbeat=2.0),
        FeedSettings(group="ff15::2", port=2, codec="binary", packing=True),
    )
    found = feeds(file=file, SERIATIM_FEED="239.0.0.1:3 239.0.0.1:4,ttl=0")
    assert [(feed.port, feed.ttl) for feed in found] == [(3, 1), (4, 0)]
    assert [feed.port for feed in feeds("239.0.0.1:5", file=file, SERIATIM_FEED=GROUP)] == [5]


def test_given_feeds_when_printed_then_they_read_back(tmp_path: Path) -> None:
    effective = resolve({"feeds": [f"{GROUP},name=a", "[ff15::1]:5,interface=lo,codec=binary"]}, {})
    file = tmp_path / "broker.toml"
    file.write_text(as_toml(effective))
    assert resolve({}, {}, str(file)).settings == effective.settings
    page = as_markdown(effective)
    shown = "239.0.0.1:1234,name=a [ff15::1]:5,interface=lo,codec=binary"
    assert f"| `feeds` | `{shown}` | `--feed` |" in page


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("239.0.0.1", '"239.0.0.1" is not a feed; give GROUP:PORT, such as 239.0.0.1:1234,inter'),
        (":1234", '":1234" is not a feed; give GROUP:PORT'),
        (
            "10.0.0.1:1234",
            '"10.0.0.1" is not a multicast address; give 224.0.0.0 to 239.255.255.255',
        ),
        ("[fd00::1]:1234", '"[fd00::1]" is not a multicast address; give 224.0.0.0 to'),
        ("group:1234", '"group" is not a multicast address; give 224.0.0.0'),
        (
            "[ff02::1%eth0]:1234",
            '"[ff02::1%eth0]" has a zone; leave it out, and give the interface',
        ),
        ("[ff02::1]:1", "the feed [ff02::1]:1: its group is limited to one link; give the inter"),
        ("239.0.0.1:0", "0 is below 1; give 1 to 65535"),
        ("239.0.0.1:65536", "65536 is above 65535; give 1 to 65535"),
        ("239.0.0.1:x", '"x" is not a port; give 1 to 65535'),
        ("239.0.0.1:-1", "-1 is below 1; give 1 to 65535"),
        (
            f"{GROUP},interface=a b",
            'interface: "a b" is not an interface; give its name, as `ip link`',
        ),
        (
            f"{GROUP},interface={'e' * 16}",
            f'interface: "{"e" * 16}" is not an interface; give its name',
        ),
        (
            f"{GROUP},interface=fd00::1",
            f'the feed {GROUP}: "fd00::1" is an IPv6 address; give the interface by its name',
        ),
        (
            "[ff15::1]:1,interface=10.0.0.1",
            'the feed [ff15::1]:1: "10.0.0.1" is an IPv4 address, and the group is IPv6;',
        ),
        (f"{GROUP},ttl=256", "ttl: 256 is above 255; give 0 to 255"),
        (f"{GROUP},loop=perhaps", 'loop: "perhaps" is neither true nor false'),
        (f"{GROUP},send_buffer=1", "send_buffer: 1 is below 4KiB; give 4KiB to 1GiB"),
        (
            f"{GROUP},subject=a..b",
            'subject: "a..b" is not a valid subject: a word between its dots is empty',
        ),
        (
            f"{GROUP},subject=>.a",
            'subject: ">.a" is not a valid subject: ">" may only be its last word',
        ),
        (f"{GROUP},subject=", 'subject: "" is not a valid subject; give words joined by dots'),
        (f"{GROUP},codec=netstrings", "codec: 'netstrings' is not a codec; give netstring, netstr"),
        (f"{GROUP},codec=nowhere:Codec", "codec: 'nowhere:Codec': ModuleNotFoundError: No"),
        (f"{GROUP},codec=os:getcwd", "codec: 'os:getcwd': not a subclass of sequencer.feed"),
        (
            f"{GROUP},packing=true,datagram_bytes=200",
            f"the feed {GROUP}: a datagram of 200 bytes has no room to pack messages into; give",
        ),
        (
            "[ff15::1]:1,packing=true,datagram_bytes=65500",
            "the feed [ff15::1]:1: datagram_bytes of 65500 is above 65487, the longest datagram of",
        ),
        (f"{GROUP},datagram_bytes=65508", "datagram_bytes: 65508 is above 65507; give 0 to 65507"),
        (f"{GROUP},heartbeat=often", 'heartbeat: "often" is not a duration'),
        (
            f"{GROUP},rerequest_port=1",
            f"the feed {GROUP}: rerequest_port goes with the codec moldudp64, and the codec here",
        ),
        (f"{GROUP},rerequest_rate=1", "rerequest_rate: 1 is below 64KiB; give 64KiB to 1GiB"),
        (f"{GROUP},packing", '"packing" has no value; write packing=VALUE'),
        (
            f"{GROUP},packng=true",
            '"packng=true" is not an option of a feed; did you mean packing=?',
        ),
        (
            f"{GROUP},zzzzz=1",
            '"zzzzz=1" is not an option of a feed; those there are: name, interface,',
        ),
        (f"{GROUP},port=5", '"port=5" is not an option of a feed'),
        (f"{GROUP},ttl=1,ttl=2", f'"{GROUP},ttl=1,ttl=2" gives ttl= more than once; give it once'),
    ],
)
def test_given_a_wrong_text_then_it_is_reported_with_its_remedy(text: str, problem: str) -> None:
    (told,) = problems(text)
    assert told.startswith(f"--feed: {problem}")


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("[feeds]\nport = 1", ["feeds: is a list of tables; write [[feeds]]"]),
        ("[[feed]]\nport = 1", ["feed: there is no such setting; did you mean [[feeds]]?"]),
        (
            "[[feeds]]",
            [
                "feeds[1].group: is missing; give 224.0.0.0 to 239.255.255.255, or of IPv6 an",
                "feeds[1].port: is missing; give 1 to 65535",
            ],
        ),
        (
            '[[feeds]]\ngroup = 5\nport = "1"\ncodecs = "binary"\nloop = 1\ninterface = 5\nzzz = 1',
            [
                "feeds[1].group: 5 is not a multicast address; give 224.0.0.0 to",
                'feeds[1].port: "1" is not a port; give 1 to 65535, without quotes',
                "feeds[1].codecs: there is no such setting; did you mean codec?",
                "feeds[1].loop: 1 is not a flag; give true or false",
                "feeds[1].interface: 5 is not an interface; give its name",
                "feeds[1].zzz: there is no such setting; a feed has name, group, port, interface,",
            ],
        ),
    ],
)
def test_given_a_wrong_table_then_all_that_is_wrong_is_reported(
    tmp_path: Path, toml: str, told: list[str]
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(toml)
    found = [problem.replace(f" in {file}", "") for problem in problems(file=file)]
    assert len(found) == len(told), found
    assert all(one.startswith(start) for one, start in zip(found, told, strict=True)), found


def test_given_feeds_that_are_wrong_together_then_it_is_reported() -> None:
    (told,) = problems(f"{GROUP},name=a", f"{GROUP},name=b")
    assert told == (
        "--feed: the feeds a and b would both go to 239.0.0.1:1234; give one of them another group"
        " or port"
    )
    (told,) = problems("239.0.0.1:1,name=a", "239.0.0.1:2,name=a")
    assert told == '--feed: two feeds are called "a"; give each a name of its own'
    mold = "codec=moldudp64,rerequest_port=5"
    (told,) = problems(f"239.0.0.1:1,{mold}", f"239.0.0.1:2,{mold}")
    assert told.startswith("--feed: the feeds 239.0.0.1:1 and 239.0.0.1:2 would share rerequest_po")
    (told,) = problems(f"239.0.0.1:1,{mold}", f"239.0.0.1:2,{mold},rerequest_host=::1")
    assert "would share rerequest_port 5" in told, "0.0.0.0 is every interface, of IPv6 too"
    one, other = f"{mold},rerequest_host=127.0.0.1", f"{mold},rerequest_host=::1"
    assert len(feeds(f"239.0.0.1:1,{one}", f"239.0.0.1:2,{other}")) == 2


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("rerequest_rate=2MiB", "rerequest_rate does nothing without rerequest_port; leave it out"),
        ("rerequest_total_rate=2MiB", "rerequest_total_rate does nothing without rerequest_port"),
        ("rerequest_percent=11", "rerequest_percent does nothing without rerequest_port; leave it"),
        ("rerequest_host=::1", "rerequest_host does nothing without rerequest_port; leave it out"),
        (
            "codec=moldudp64,rerequest_host=::1",
            "rerequest_host does nothing without rerequest_port; give that port too, or leave it",
        ),
        ("datagram_bytes=500", "datagram_bytes does nothing without packing; give that too, or"),
        (
            "codec=moldudp64,datagram_bytes=500",
            "datagram_bytes does nothing without packing, or rerequest_port; give that too, or",
        ),
    ],
)
def test_given_an_option_that_would_do_nothing_then_it_is_reported(option: str, why: str) -> None:
    (told,) = problems(f"{GROUP},{option}")
    assert told.startswith(f"--feed: the feed {GROUP}: {why}")


def test_given_options_that_do_something_or_are_as_by_default_then_they_are_taken() -> None:
    mold = "codec=moldudp64,rerequest_port=-1"
    for options in (
        f"{mold},rerequest_rate=2MiB,rerequest_host=::1,rerequest_percent=11,datagram_bytes=500",
        "packing=true,datagram_bytes=500",
        "rerequest_port=0,rerequest_rate=1MiB,rerequest_total_rate=16MiB,rerequest_percent=10",
        "rerequest_host=,datagram_bytes=0,packing=false",
    ):
        assert len(feeds(f"{GROUP},{options}")) == 1


def test_given_a_re_request_port_of_another_codec_then_the_error_says_how_holes_are_filled() -> (
    None
):
    (told,) = problems(f"{GROUP},rerequest_port=1")
    assert told.endswith("fetch what they missed with $SEQ.READ and $SEQ.INFO; leave the port out")


def test_given_one_group_by_two_interfaces_then_it_is_a_and_b() -> None:
    assert len(feeds(f"{GROUP},interface=eth0,name=a", f"{GROUP},interface=eth1,name=b")) == 2
    (told,) = problems(f"{GROUP},interface=eth0", f"{GROUP},interface=eth1")
    assert told == f'--feed: two feeds are called "{GROUP}"; give each a name of its own'


def test_given_a_feed_and_nothing_kept_then_it_is_reported() -> None:
    flags: dict[str, Any] = {"journal.enabled": False, "journal.ring_bytes": "0"}
    (told,) = problems(GROUP, flags=flags)
    assert told.startswith("--feed: a feed sends what is kept, but nothing is kept: leave out")
    assert resolve({"feeds": [GROUP], "journal.enabled": False}, {}).settings.feeds


def test_given_a_codec_of_ones_own_then_its_class_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "settings_codecs.py").write_text(
        "from sequencer.feed.feed_codec import Codec\n"
        "class Good(Codec): pass\n"
        "class Needy(Codec):\n    def __init__(self, what): pass\n"
    )
    (tmp_path / "settings_broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert feeds(f"{GROUP},codec=settings_codecs:Good")[0].codec == "settings_codecs:Good"
    (told,) = problems(f"{GROUP},codec=settings_codecs:Needy")
    assert "codec: 'settings_codecs:Needy': cannot be made: TypeError" in told
    (told,) = problems(f"{GROUP},codec=settings_codecs:None_")
    assert "codec: 'settings_codecs:None_': AttributeError" in told
    (told,) = problems(f"{GROUP},codec=settings_broken:Any")
    assert "codec: 'settings_broken:Any': ZeroDivisionError" in told
