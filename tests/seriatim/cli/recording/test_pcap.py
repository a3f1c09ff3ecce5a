"""`seriatim pcap`: captures of a feed become recordings, of every link type that tcpdump makes."""

import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dpkt
import pytest

from sequencer.feed.codecs import codec_named
from sequencer.feed.feed_codec import Codec
from sequencer.feed.feed_message import FeedMessage
from seriatim.cli.recording.recording_format import (
    Item,
    RecordedLoss,
    RecordedMessage,
    RecordingReader,
)
from tests.seriatim.cli.command import COMMAND, environment, refusal, seriatim
from tests.seriatim.cli.recording.recording import WAIT_S, await_numbers, items_of, messages_of
from tests.support.multicast import new_group
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer
from tests.support.raw import HEADERS, RawClient

JOURNAL = "00c0ffee00c0ffee"
GROUP, PORT = "239.1.2.3", 1234
SECOND = 1_700_000_000
THE_END = b"the end of it"

Packets = list[tuple[float, bytes]]


def codec(name: str = "binary", journal: str = JOURNAL) -> Codec:
    made = codec_named(name)
    made.open(journal, 3)
    return made


def message(number: int, **fields: bytes) -> FeedMessage:
    made = {"subject": b"m.a", "headers": b"", "payload": b"message %d" % number, **fields}
    return FeedMessage(number, **made, time=number * 1000)


def datagram(*numbers: int, of: Codec | None = None) -> bytes:
    return (of or codec()).datagram([message(number) for number in numbers], numbers[0] - 1)


def packet(
    payload: bytes, group: str = GROUP, port: int = PORT, source: str = "10.0.0.7"
) -> dpkt.ip.IP:
    udp = dpkt.udp.UDP(sport=5000, dport=port, data=payload)
    udp.ulen = len(udp)
    ends = {"src": packed(source), "dst": packed(group)}
    return dpkt.ip.IP(p=17, data=udp, **ends)


def packed(address: str) -> bytes:
    return bytes(map(int, address.split(".")))


def ethernet(ip: dpkt.ip.IP, *tags: int) -> bytes:
    """An Ethernet frame with these VLAN tags, padded as on the wire."""
    kinds = [*([0x88A8] if len(tags) > 1 else []), *([0x8100] if tags else [])]
    head = b"".join(
        struct.pack("!HH", kind, tag) for kind, tag in zip(kinds, tags, strict=True)
    ) + struct.pack("!H", 0x0800)
    return (bytes(6) + b"\1\0\x5e\1\2\3" + head + bytes(ip)).ljust(60, b"\0")


def capture(path: Path, packets: Packets, link: int = 1, nano: bool = False) -> str:
    with path.open("wb") as file:
        writer = dpkt.pcap.Writer(file, snaplen=1 << 16, linktype=link, nano=nano)
        for at, data in packets:
            writer.writepkt_time(data, SECOND + at)
    return str(path)


def frames(*datagrams: bytes) -> Packets:
    return [(at / 1000, ethernet(packet(one))) for at, one in enumerate(datagrams)]


def recorded(
    capture: str, *options: str, status: int = 0, codec: str = "binary", stdin: bytes = b""
) -> tuple[list[Item], str]:
    """What is in the recording of a capture, and what the command says."""
    done = seriatim("pcap", capture, "--codec", codec, *options, stdin=stdin)
    said = done.stderr.decode()
    assert done.returncode == status, said
    return items_of(done.stdout), said


def numbers(items: list[Item]) -> list[int]:
    return [item.number for item in items if isinstance(item, RecordedMessage)]


# Captures of a real feed


def need_tcpdump() -> None:
    if shutil.which("tcpdump") is None:
        need = [str(ROOT / ".ci" / "need"), "tcpdump"]
        subprocess.run(need, check=False, capture_output=True)
    if shutil.which("tcpdump") is None:
        pytest.skip("tcpdump is not installed, and cannot be fetched")
    if os.geteuid() != 0:
        pytest.skip("capturing needs root")


@contextmanager
def captured(path: Path, interface: str, port: int) -> Iterator[None]:
    """Capture what is sent to a port in the block, up to a datagram with `THE_END`."""
    need_tcpdump()
    # A buffer of 128 MiB: the default one has room for eight packets of any size.
    command = ["tcpdump", "--immediate-mode", "-U", "-B", "131072", "-Z", "root", "-i", interface]
    process = subprocess.Popen(
        [*command, "-w", str(path), f"udp port {port}"], stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if "listening on" in line:
                    break
            else:
                pytest.skip(f"tcpdump cannot capture on {interface} here")
            yield
            end = time.monotonic() + WAIT_S
            while THE_END not in path.read_bytes():
                assert time.monotonic() < end, "the end was not captured"
                time.sleep(0.01)  # no event to await
        finally:
            process.send_signal(signal.SIGINT)


@pytest.mark.parametrize("interface", ["lo", "any"])
@pytest.mark.parametrize("codec", ["netstring", "netstring-subject", "binary", "moldudp64"])
def test_given_a_capture_of_a_broker_with_a_feed_then_it_is_what_the_broker_recorded(
    tmp_path: Path, codec: str, interface: str
) -> None:
    group, port = new_group()
    feed = f"{group}:{port},interface=127.0.0.1,codec={codec},packing=true"
    path = tmp_path / "feed.pcap"
    with SeriatimServer(arguments=["--feed", feed]) as broker:
        with captured(path, interface, port), RawClient(broker.port, HEADERS) as client:
            for number in range(5):
                client.ask(b"PUB m.a 7\r\nsingle%d\r\n" % number)
            client.ask(b"HPUB m.b 18 20\r\nNATS/1.0\r\nA: b\r\n\r\n\0,\r\n")
            for size in (10, 100, 1000):  # the kernel gets many datagrams at once
                client.ask((b"PUB m.c %d\r\n%b\r\n" % (size, bytes(size))) * 200)
            client.ask(b"PUB m.d 13\r\n%b\r\n" % THE_END)
        done = seriatim("record", "--from", "1", "-e", "--url", f"127.0.0.1:{broker.port}")
    items, said = recorded(str(path), codec=codec)
    live = messages_of(done.stdout)
    assert len(live) == 607
    assert numbers(items) == [one.number for one in live]
    assert [one.payload for one in items if isinstance(one, RecordedMessage)] == [
        one.payload for one in live
    ]
    assert f"seriatim: datagrams to {group}:{port}: " in said
    if codec == "binary":
        assert items == live


# Captures made here


def bare(payload: bytes) -> bytes:
    return bytes(packet(payload))


@pytest.mark.parametrize(
    ("link", "wrap"),
    [
        (1, lambda payload: ethernet(packet(payload))),
        (1, lambda payload: ethernet(packet(payload), 5)),
        (1, lambda payload: ethernet(packet(payload), 5, 6)),
        (113, lambda payload: bytes(14) + b"\x08\x00" + bare(payload)),
        (113, lambda payload: bytes(14) + b"\x81\x00\x00\x05\x08\x00" + bare(payload)),
        (276, lambda payload: b"\x08\x00" + bytes(18) + bare(payload)),
        (276, lambda payload: b"\x81\x00" + bytes(18) + b"\x00\x05\x08\x00" + bare(payload)),
        (0, lambda payload: b"\2\0\0\0" + bare(payload)),
        (108, lambda payload: b"\0\0\0\2" + bare(payload)),
        (101, bare),
        (228, bare),
    ],
    ids=[
        *("ethernet", "VLAN", "two VLANs", "any, as it was", "any, as it was, VLAN"),
        *("any", "any, VLAN", "BSD loopback", "OpenBSD loopback", "IP", "IPv4"),
    ],
)
@pytest.mark.parametrize("kind", ["pcap", "nanoseconds", "pcapng"])
def test_given_a_link_type_then_its_datagrams_are_read(
    tmp_path: Path, link: int, wrap: object, kind: str
) -> None:
    assert callable(wrap)
    mold = codec("moldudp64")
    packets = [(at + 0.25, wrap(datagram(at + 1, of=mold))) for at in range(3)]
    path = tmp_path / "feed"
    if kind == "pcapng":
        with path.open("wb") as file:
            writer = dpkt.pcapng.Writer(file, snaplen=1 << 16, linktype=link)
            for at, data in packets:
                writer.writepkt_time(data, SECOND + at)
    else:
        capture(path, packets, link, nano=kind == "nanoseconds")
    items, _ = recorded(str(path), codec="moldudp64")
    times = [SECOND * 10**9 + at * 10**9 + 250_000_000 for at in range(3)]
    assert items == [
        RecordedMessage(at + 1, times[at], b"", b"", b"", b"message %d" % (at + 1))
        for at in range(3)
    ]


def test_given_ipv6_then_its_datagrams_are_read(tmp_path: Path) -> None:
    udp = dpkt.udp.UDP(sport=5000, dport=PORT, data=datagram(1))
    udp.ulen = len(udp)
    group = bytes.fromhex("ff150000000000000000000000010001")
    ip = dpkt.ip6.IP6(nxt=17, src=bytes(15) + b"\1", dst=group, data=udp, plen=len(udp))
    frame = bytes(12) + b"\x86\xdd" + bytes(ip)
    path = capture(tmp_path / "feed.pcap", [(0, frame)])
    items, said = recorded(path)
    assert numbers(items) == [1]
    assert "seriatim: datagrams to [ff15::1:1]:1234: 1; " in said
    assert numbers(recorded(path, "--group", "[ff15::1:1]:1234")[0]) == [1]


def test_given_gaps_duplicates_and_late_ones_then_they_are_recorded_once_and_reported(
    tmp_path: Path,
) -> None:
    sent = [datagram(1), datagram(3), datagram(2), datagram(2), datagram(7, 8), datagram(11)]
    items, said = recorded(capture(tmp_path / "a", frames(*sent)), status=1)
    assert numbers(items) == [1, 2, 3, 7, 8, 11]
    assert [one for one in items if isinstance(one, RecordedLoss)] == [
        RecordedLoss(4, 6),
        RecordedLoss(9, 10),
    ]
    assert "seriatim: numbers 4 to 6 are missing\n" in said
    assert (
        "seriatim: datagrams to 239.1.2.3:1234: 6; messages that came twice: 1, late: 1; missing"
        " numbers: 5\n"
    ) in said


def test_given_two_feeds_then_one_fills_the_gaps_of_the_other(tmp_path: Path) -> None:
    a, b = ("239.1.2.3", PORT), ("239.1.2.4", PORT)
    sent = [(1, a), (2, b), (3, a), (3, b), (4, a)]
    packets = [
        (at / 1000, ethernet(packet(datagram(number), *feed)))
        for at, (number, feed) in enumerate(sent)
    ]
    path = capture(tmp_path / "both", packets)
    groups = ("--group", "239.1.2.3", "--group", "239.1.2.4:1234")
    assert numbers(recorded(path, *groups)[0]) == [1, 2, 3, 4]
    items, _ = recorded(path, "--group", "239.1.2.3", "--port", "1234", status=1)
    assert numbers(items) == [1, 3, 4]
    said = refusal("pcap", path, "-o", str(tmp_path / "x.rec"), "--codec", "binary")
    assert said.startswith("the capture has datagrams to 239.1.2.3:1234 and to 239.1.2.4:1234; ")
    assert not (tmp_path / "x.rec").exists()


def test_given_several_files_and_a_pipe_then_they_are_one_capture(tmp_path: Path) -> None:
    first = capture(tmp_path / "a", frames(datagram(1), datagram(2)))
    capture(tmp_path / "b", frames(datagram(4), datagram(3)))
    piped = (tmp_path / "b").read_bytes()
    assert numbers(recorded(first, "-", stdin=piped)[0]) == [1, 2, 3, 4]


def test_given_several_datagrams_captured_as_one_then_they_are_taken_apart(tmp_path: Path) -> None:
    mold = codec("moldudp64")
    merged = b"".join(datagram(number, of=mold) for number in (1, 2, 3))
    items, said = recorded(capture(tmp_path / "a", frames(merged)), codec="moldudp64")
    assert numbers(items) == [1, 2, 3]
    assert said.startswith("seriatim: datagrams to 239.1.2.3:1234: 3; ")


def test_given_fragments_in_any_order_then_they_are_put_together(tmp_path: Path) -> None:
    long = codec().datagram([message(1, payload=bytes(4000))], 0)
    whole = packet(long)
    body = bytes(whole)[20:]
    parts = []
    for offset in (1480, 2960, 0):
        piece = body[offset : offset + 1480]
        more = offset + 1480 < len(body)
        fragment = dpkt.ip.IP(p=17, id=7, src=whole.src, dst=whole.dst, data=piece)
        fragment._flags_offset = (0x2000 if more else 0) | offset // 8
        fragment.len = 20 + len(piece)
        parts.append((offset / 10**6, ethernet(fragment)))
    items, _ = recorded(capture(tmp_path / "a", parts))
    assert [one.payload for one in items if isinstance(one, RecordedMessage)] == [bytes(4000)]
    said = recorded_nothing(capture(tmp_path / "b", parts[:2]))
    assert f"{tmp_path}/b: left out: 1 datagrams that lack a fragment" in said


def recorded_nothing(path: str) -> str:
    done = seriatim("pcap", path, "--codec", "binary")
    assert (done.returncode, done.stdout) == (1, b"")
    return done.stderr.decode()


def test_given_packets_that_are_cut_short_then_they_are_counted(tmp_path: Path) -> None:
    good, bad = ethernet(packet(datagram(1))), ethernet(packet(datagram(2)))
    path = capture(tmp_path / "a", [(0, good), (1, bad[:70])])
    items, said = recorded(path, status=1)
    assert numbers(items) == [1]
    assert f"{path}: left out: 1 packets captured only in part; give tcpdump -s 0" in said


@pytest.mark.parametrize("cut", [3, 90], ids=["in a head", "in a packet"])
def test_given_a_capture_that_was_cut_then_the_rest_is_read_and_it_is_reported(
    tmp_path: Path, cut: int
) -> None:
    path = Path(capture(tmp_path / "a", frames(datagram(1), datagram(2))))
    one = Path(capture(tmp_path / "b", frames(datagram(1))))
    path.write_bytes(path.read_bytes()[: one.stat().st_size + cut])
    items, said = recorded(str(path), status=1)
    assert numbers(items) == [1]
    assert "are cut short" in said or "captured only in part" in said


def test_given_foreign_traffic_then_it_is_passed_over(tmp_path: Path) -> None:
    packets = [
        (0, b"\xff" * 60),
        (0.1, b""),
        (0.2, ethernet(packet(datagram(9), "10.0.0.8"))),  # unicast
        (0.3, ethernet(packet(datagram(1)))),
        (0.4, bytes(12) + b"\x08\x06" + bytes(46)),
        (0.5, ethernet(dpkt.ip.IP(p=6, src=packed("10.0.0.1"), dst=packed(GROUP), data=b"x"))),
        (0.6, ethernet(packet(datagram(2)))),
    ]
    assert numbers(recorded(capture(tmp_path / "a", packets))[0]) == [1, 2]


def test_given_datagrams_that_the_codec_cannot_read_then_they_are_counted_with_the_reason(
    tmp_path: Path,
) -> None:
    path = capture(tmp_path / "a", frames(datagram(1), b"hello", datagram(2)))
    items, said = recorded(path, status=1)
    assert numbers(items) == [1, 2]
    assert (
        "seriatim: left out: 1 datagrams that --codec binary cannot read: CodecError: at byte"
        in said
    )


def test_given_another_stream_behind_it_then_the_recording_ends_before_it(tmp_path: Path) -> None:
    other = codec(journal="00000000000000aa")
    packets = [
        (0, ethernet(packet(datagram(1, 2)))),
        *((9 + at / 10, ethernet(packet(datagram(at, of=other)))) for at in range(1, 5)),
    ]
    items, said = recorded(capture(tmp_path / "a", packets), status=1)
    assert numbers(items) == [1, 2]
    assert "another stream begins behind number 2; left out: " in said


@pytest.mark.parametrize(
    ("name", "journal"),
    [("binary", JOURNAL), ("netstring", f"239.1.2.3:1234@{SECOND}000000000")],
)
def test_given_a_codec_then_the_head_names_the_stream(
    tmp_path: Path, name: str, journal: str
) -> None:
    path = capture(tmp_path / "a", frames(datagram(1, of=codec(name))))
    output = tmp_path / "a.rec"
    done = seriatim("pcap", path, "--codec", name, "-o", str(output))
    assert done.returncode == 0
    reader = RecordingReader()
    assert len(list(reader.feed(output.read_bytes()))) == 1
    assert reader.head is not None
    assert (reader.head.journal, reader.head.subjects) == (journal, (">",))
    again = ("pcap", path, "--codec", name, "-o", str(output))
    assert refusal(*again) == f"{output}: the file exists already; --force replaces it"
    before = output.read_bytes()
    assert seriatim(*again, "--force").returncode == 0
    assert output.read_bytes() == before
    assert "no such file" in refusal("pcap", f"{path}.not", "-o", str(output), "--force").lower()
    assert output.read_bytes() == before  # replaced only by one that is whole
    assert [one.name for one in tmp_path.iterdir() if one.suffix == ".new"] == []


def test_given_a_recording_of_a_feed_when_played_then_its_messages_are_published_once(
    tmp_path: Path,
) -> None:
    path = capture(tmp_path / "a", frames(datagram(4, 5, of=codec("moldudp64"))))
    output = str(tmp_path / "a.rec")
    assert seriatim("pcap", path, "--codec", "moldudp64", "-o", output).returncode == 0
    with SeriatimServer() as broker:
        where = ("--url", f"127.0.0.1:{broker.port}")
        for _ in range(2):
            assert seriatim("play", output, "--subject", "market", *where).returncode == 0
        found = messages_of(seriatim("record", "--from", "1", "-e", *where).stdout)
    assert [(one.subject, one.payload) for one in found] == [
        (b"market", b"message 4"),
        (b"market", b"message 5"),
    ]


def test_given_a_pipe_that_stays_open_then_what_comes_is_recorded_at_once(tmp_path: Path) -> None:
    path, output = Path(capture(tmp_path / "a", frames(datagram(1)))), tmp_path / "a.rec"
    command = [COMMAND, "pcap", "-", "--codec", "binary", "-o", str(output)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdin is not None
        process.stdin.write(path.read_bytes())
        process.stdin.flush()
        await_numbers(output, [1])
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 130
        assert process.stderr is not None
        assert b"seriatim: recorded 1 message, " in process.stderr.read()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, "no such file or directory"),
        (b"", "is not a capture; give a file of tcpdump -w"),
        (b"hello" * 10, "is not a capture; give a file of tcpdump -w"),
        (b"\x0a\x0d\x0d\x0a" + bytes(40), "is not a capture; give a file of tcpdump -w"),
    ],
    ids=["none", "empty", "text", "a broken head"],
)
def test_given_no_capture_then_the_error_says_so(
    tmp_path: Path, data: bytes | None, why: str
) -> None:
    path, output = tmp_path / "a", tmp_path / "a.rec"
    if data is not None:
        path.write_bytes(data)
    assert refusal("pcap", str(path), "-o", str(output)) == f"{path}: {why}"
    assert not output.exists()


def test_given_a_link_type_that_is_none_of_a_network_then_the_error_names_it(
    tmp_path: Path,
) -> None:
    path = capture(tmp_path / "a", [], link=189)
    said = refusal("pcap", path, "-o", str(tmp_path / "a.rec"))
    assert said == f"{path}: its link type, 189, is not supported; capture UDP/IP"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--group", "market"), '--group: "market" is no group; write GROUP or GROUP:PORT'),
        (("--group", "239.0.0.1:99999"), "is no group"),
        (("--codec", "morse"), "'morse' is not a codec"),
        (("--filtered", "a..b"), '"a..b"'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_given_options_that_do_not_fit_then_the_error_says_why(
    tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    path = capture(tmp_path / "a", frames(datagram(1)))
    assert why in refusal("pcap", path, "-o", str(tmp_path / "a.rec"), *arguments)


def test_given_no_dpkt_then_the_error_says_how_to_install_it(tmp_path: Path) -> None:
    path = capture(tmp_path / "a", frames(datagram(1)))
    (tmp_path / "dpkt.py").write_text("raise ImportError")
    said = refusal("pcap", path, "-o", str(tmp_path / "x"), env={"PYTHONPATH": str(tmp_path)})
    assert said.startswith("reading captures needs dpkt, which is not installed here: pip install")
