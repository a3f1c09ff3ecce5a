"""Pages over HTTP: the connection is kept, and opened again; what is missing is left out."""

import socket
import threading
from collections.abc import Iterator

import pytest

from seriatim.cli.top.page_reader import Answers, NoAnswer, PageAddress, PageAsker, PageReader
from tests.support.raw import TIMEOUT_S

ROUND = {"varz": "/varz"}


class PageServer:
    """A server of pages that closes each connection after `each` answers, as it may.

    A page is a number, one more each time; /missing is not there, and /cut ends too early.
    """

    def __init__(self, each: int) -> None:
        self.asked: list[list[bytes]] = []  # the requests of each connection
        self._each = each
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def address(self) -> PageAddress:
        return PageAddress("127.0.0.1", self._server.getsockname()[1])

    def _serve(self) -> None:
        while True:
            peer, _ = self._server.accept()
            with peer, peer.makefile("rb") as lines:
                asked: list[bytes] = []
                while len(asked) < self._each and (line := lines.readline()):
                    if line == b"STOP\r\n":
                        return
                    asked.append(line.split()[1])
                    self.asked = [*self.asked[: len(self.asked) - (len(asked) > 1)], asked]
                    while lines.readline() != b"\r\n":
                        pass
                    self._answer(peer, asked[-1])

    def _answer(self, peer: socket.socket, path: bytes) -> None:
        number = sum(map(len, self.asked))
        if path == b"/missing":
            peer.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone")
        elif path == b"/cut":
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{")
        else:
            body = b'{"n": %d}' % number
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    def stop(self) -> None:
        with socket.create_connection(self._server.getsockname()) as last:
            last.sendall(b"STOP\r\n")
        self._thread.join(TIMEOUT_S)
        self._server.close()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[PageServer]:
    made = PageServer(each=getattr(request, "param", 2))
    yield made
    made.stop()


def test_given_rounds_then_the_connection_is_kept_and_opened_again_when_it_was_closed(
    server: PageServer,
) -> None:
    reader = PageReader(server.address)
    found = [reader.read(ROUND).pages["varz"]["n"] for _ in range(5)]
    reader.close()
    assert found == [1, 2, 3, 4, 5]
    assert [len(asked) for asked in server.asked] == [2, 2, 1]


def test_given_a_page_that_is_missing_then_the_others_are_there(server: PageServer) -> None:
    reader = PageReader(server.address)
    found = reader.read({**ROUND, "jsz": "/missing", "subsz": "/subsz"})
    assert set(found.pages) == {"varz", "subsz"}
    with pytest.raises(NoAnswer, match="it answered 404 Not Found"):
        reader.read({"varz": "/missing"})
    reader.close()


@pytest.mark.parametrize("server", [1], indirect=True)
def test_given_a_page_that_ends_too_early_then_there_is_no_answer_and_the_next_one_works(
    server: PageServer,
) -> None:
    reader = PageReader(server.address)
    with pytest.raises(NoAnswer):
        reader.read({"varz": "/cut"})
    assert reader.read(ROUND).pages["varz"] == {"n": 2}
    reader.close()


def test_given_a_round_on_another_thread_then_its_end_can_be_selected_on(
    server: PageServer,
) -> None:
    with PageAsker(PageReader(server.address)) as asker:
        for number in (1, 2):
            assert asker.take() is None
            asker.ask(ROUND)
            assert asker.is_busy
            with socket.socket(fileno=asker.fileno()) as bell:
                bell.settimeout(TIMEOUT_S)
                assert bell.recv(1, socket.MSG_PEEK)
                bell.detach()
            heard = asker.take()
            assert isinstance(heard, Answers)
            assert heard.pages["varz"] == {"n": number}
            assert not asker.is_busy
