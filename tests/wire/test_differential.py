"""Every case of the table, whole and in pieces: our answer is nats-server's, to the byte.

The oracle is asked once for each case, in one piece. Its own answers depend on how TCP cut the
bytes in two places, the cases marked `uneven`; ours must not depend on it anywhere.
"""

import random
from dataclasses import replace

import pytest

from testkit.model_frame import split_frame
from tests.support.depth import depth
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import Operation, RawClient, operations
from tests.wire import cases_connect, cases_lines, cases_subjects, cases_traced
from tests.wire.cases import Case
from tests.wire.conftest import Choose
from tests.wire.normal import Plain, normal, normal_bytes

CASES = [*cases_lines.CASES, *cases_connect.CASES, *cases_traced.CASES, *cases_subjects.CASES]
# A long script is cut into so many pieces at most: the rest is the same bytes.
PIECES_MAX = depth(200, 600)

Answer = tuple[list[Plain], bool]

_answers: dict[str, Answer] = {}


def answer(port: int, case: Case, cuts: list[int] | None = None) -> tuple[bytes, bool]:
    """What a server says to the script sent in these pieces, and whether it closes."""
    with RawClient(port) as client:
        client.send_split(case.bytes_to_send, cuts or [])
        if case.half_close:
            client.half_close()
        found = client.answer(b"", case.pongs)
        client.leave()  # or its members of queue groups would take what is meant for the next one's
        return found


def ask(port: int, case: Case, cuts: list[int] | None = None) -> Answer:
    said, closed = answer(port, case, cuts)
    return normal_bytes(said), closed


def expected(oracle: Choose, case: Case) -> Answer:
    if case.name not in _answers:
        _answers[case.name] = ask(oracle(case.limits).port, case)
    return _answers[case.name]


def every_byte(script: bytes) -> list[int]:
    """Cuts between all bytes; in a long script between the first and the last ones."""
    size = len(script)
    if size <= PIECES_MAX:
        return list(range(1, size))
    edge = PIECES_MAX // 2
    return [*range(1, edge), *range(size - edge, size)]


def some_places(script: bytes, seed: str) -> list[int]:
    chance = random.Random(seed)
    return sorted(chance.sample(range(1, len(script)), min(4, len(script) - 1)))


def test_given_the_table_then_no_two_cases_have_one_name() -> None:
    names = [case.name for case in CASES]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_given_a_script_when_sent_whole_or_cut_anywhere_then_the_answer_is_nats_servers(
    case: Case, oracle: Choose, tested: Choose
) -> None:
    script, port = case.bytes_to_send, tested(case.limits).port
    assert ask(port, case) == expected(oracle, case), "sent whole"
    if STAND_IN and case.uneven:
        return  # nats-server's answer to pieces differs here; ours must not
    if script:
        seeds = "ab"[: depth(1, 2)]
        for cuts in (every_byte(script), *(some_places(script, seed) for seed in seeds)):
            assert ask(port, case, cuts) == expected(oracle, case), f"cut at {cuts[:50]}"


@pytest.mark.skipif(STAND_IN, reason="nats-server has no event loop to choose")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_given_either_event_loop_then_all_answers_are_the_same(loop: str, oracle: Choose) -> None:
    pytest.importorskip(loop)
    with SeriatimServer("none", arguments=["--loop", loop]) as broker:
        assert broker.await_line(loop)
        for case in CASES:
            if case.limits == "default":
                cuts = some_places(case.bytes_to_send, loop) if case.bytes_to_send else []
                assert ask(broker.port, case, cuts) == expected(oracle, case), case.name


def unframed(operation: Operation, numbers: list[int]) -> Operation:
    """A message as it would have been without its frame, and without its sizes as text."""
    if operation.verb not in ("MSG", "HMSG"):
        return operation
    payload = operation.payload
    if not operation.header.startswith(b"NATS/1.0 503"):  # the broker's own words are not framed
        number, payload = split_frame(payload)
        if numbers[-1:] != [number]:
            numbers.append(number)
    return replace(operation, payload=payload)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_given_a_script_when_frames_are_on_then_only_the_payloads_differ(
    case: Case, oracle: Choose, framed: Choose
) -> None:
    said, closed = answer(framed(case.limits).port, case)
    numbers: list[int] = []
    inner = normal([unframed(operation, numbers) for operation in operations(said)])
    plain, plain_closed = expected(oracle, case)
    assert closed == plain_closed
    assert [without_sizes(one) for one in inner] == [without_sizes(one) for one in plain]
    assert numbers == sorted(set(numbers))


def without_sizes(plain: Plain) -> Plain:
    return (*plain[:4], *plain[5:]) if plain[0] in ("MSG", "HMSG") else plain
