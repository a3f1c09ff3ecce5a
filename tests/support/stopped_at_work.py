"""A broker that is stopped while a publisher sends more than its subscriber reads."""

import signal
import threading

from testkit.model_frame import split_frame
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, RawClient, operations

LOUD = b'CONNECT {"verbose":true,"pedantic":false}\r\n'
BODY = b"x" * 20_000


def stopped_at_work(broker: SeriatimServer, number: signal.Signals, line: str) -> int:
    """Send the signal amid traffic; how many messages were delivered: those that were accepted.

    `line` is what the broker logs then. It sends netstrings, and ends with status 0.
    """
    oks: list[bytes] = []
    wire = b"PUB a %d\r\n%b\r\n" % (len(BODY), BODY)
    with (
        RawClient(broker.port, QUIET, receive_buffer=4096) as ear,
        RawClient(broker.port, LOUD) as publisher,
    ):
        ear.ask(b"SUB a 1\r\n")
        assert publisher.line() == b"+OK\r\n"
        pouring = threading.Thread(target=publisher.send_split, args=(wire * 1000, []))
        reading = threading.Thread(target=lambda: oks.append(publisher.until_closed()))
        pouring.start()
        reading.start()
        first = ear.operation()  # traffic flows, and the reader is far behind
        broker.signal(number)
        assert broker.await_line(line)
        heard = [first, *operations(ear.until_closed())]
        pouring.join()
        reading.join()
    assert broker.wait() == 0
    assert [split_frame(one.payload)[0] for one in heard] == list(range(1, len(heard) + 1))
    assert oks[0].count(b"+OK\r\n") == len(heard)
    return len(heard)
