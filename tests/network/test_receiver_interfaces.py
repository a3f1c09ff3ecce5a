"""A receiver whose interface is removed and created again receives its group again."""

import re
import subprocess

import pytest

from tests.network.scene import ROOT, Scene
from tests.support.processes import BIN

QUICK = "idle=0.1"
FEW = 200  # what any kernel holds unread: nobody is asked for more
GROUPS = {
    "ipv4": ("239.77.0.1:5000", "[239.77.0.1]:5000"),
    "ipv6": ("[ff15::77:1]:5000", "[ff15::77:1]:5000"),
    "ipv6-link": ("[ff02::77:1]:5000", "[ff02::77:1]:5000"),
}


@pytest.mark.parametrize("by", ["name", "address"])
@pytest.mark.parametrize("family", GROUPS)
def test_given_an_interface_that_is_recreated_then_the_receiver_hears_by_it(
    family: str, by: str
) -> None:
    feed, group = GROUPS[family]
    with Scene(f"{feed},codec=binary,interface=eth0,heartbeat=0.2") as scene:
        far = scene.network.host("far")
        address = far.address() if family == "ipv4" else far.address6()
        interface = "eth0" if by == "name" else address
        listener = scene.listen(
            far, "binary", "-", "1", str(4 * FEW), f"{group},{interface}", QUICK
        )
        publisher = scene.publisher()
        publisher.publish(FEW)
        listener.await_number(FEW)
        for times in (2, 3):
            far.renew()
            listener.await_line("rejoined")
            publisher.publish(FEW)
            listener.await_number(times * FEW)
        publisher.publish(FEW)
        report = listener.report()
    assert (report["delivered"], report["lost"], report["wrong"]) == (4 * FEW, [], [])
    assert report["counters"]["rejoins"] == 2
    assert report["counters"]["filled"] == 0


def test_given_an_interface_that_stays_then_silence_is_no_reason_to_join_again() -> None:
    with Scene("239.77.0.1:5000,interface=eth0") as scene:
        far = scene.network.host("far")
        listener = scene.listen(far, "netstring", "-", "1", "2", "239.77.0.1:5000", QUICK)
        scene.publisher().publish(1)
        far.link(False)
        far.link(True)
        scene.publisher("q").publish(1)
        report = listener.report()
    assert (report["delivered"], report["counters"]["rejoins"]) == (2, 0)


def test_given_an_interface_that_is_recreated_then_destn_hears_by_it() -> None:
    with Scene("239.77.0.1:5000,interface=eth0") as scene:
        far = scene.network.host("far")
        with far.inside():
            words = ["destn", "239.77.0.1", "5000", "--interface", "eth0", "--json", "--stats"]
            process = subprocess.Popen(
                [str(BIN / "seriatim"), *words, "--count", "2"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=ROOT,
                text=True,
            )
        with process:
            assert process.stderr is not None
            assert "listening" in process.stderr.readline()
            publisher = scene.publisher()
            publisher.publish(1)
            far.renew()
            while process.poll() is None:  # what comes before it has joined again is not heard
                publisher.publish(1, 20)
            said, counted = process.communicate()
    assert len(said.splitlines()) == 2
    assert re.search(r"messages +2 ", counted)
