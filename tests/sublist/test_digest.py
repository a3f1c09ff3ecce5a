"""The digest of subjects: what it is, and that nobody can choose subjects that share one."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count, islice, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublist.digest import SEED_SIZE, keys_of
from sublist.sublist import Sublist
from testkit.model_digest import SEED, digest
from tests.support.depth import compiled_only, depth
from tests.support.places import ROOT

seeds = st.binary(min_size=SEED_SIZE, max_size=SEED_SIZE)
HEAVY = 100_000  # subjects; the table has 131 072 slots then
CHANCE = 40  # pairs with one digest: chance makes one or two among so many
START = "from sublist.sublist import Sublist; print(Sublist().digest_of(b'orders.new'))"
# Each pair has one digest under 32-bit FNV-1a, whatever follows: two to the 17th subjects in one
# slot, if a table's digest were that.
OF_FNV = (
    (b"g94k2v", b"r8qatw"),
    (b"2ye12t", b"jbl0wr"),
    (b"ug1iju", b"pymwpp"),
    (b"rte9kk", b"dt8lf4"),
    (b"576xr8", b"vis4v4"),
    (b"0s28hq", b"7ck4j5"),
    (b"fxtnyi", b"qhcm7x"),
    (b"47rgry", b"feykyu"),
    (b"k0fyby", b"3rheor"),
    (b"o8ibya", b"jumqy4"),
    (b"bgkgud", b"f7n9tb"),
    (b"tcxdg4", b"r5dxx9"),
    (b"n5ds4s", b"hrzsz2"),
    (b"5cmt32", b"84sd81"),
    (b"qnhmvm", b"tbpk33"),
    (b"3wfak8", b"p29jvq"),
    (b"go5rvb", b"zj0bq2"),
)


def fnv(subject: bytes) -> int:
    """32-bit FNV-1a, which has no secret."""
    value = 0x811C9DC5
    for byte in subject:
        value = (value ^ byte) * 0x01000193 % (1 << 32)
    return value


@given(seed=seeds, subject=st.binary(max_size=100))
def test_given_any_seed_and_subject_then_the_digest_is_that_of_its_definition(
    seed: bytes, subject: bytes
) -> None:
    assert Sublist(seed=seed).digest_of(subject) == digest(seed, subject)


def test_given_subjects_of_every_size_then_each_is_digested_to_its_last_byte() -> None:
    sublist, text = Sublist(seed=SEED), bytes(range(256)) * 3
    for size in range(300):
        subject = text[size : size + size]
        assert sublist.digest_of(subject) == digest(SEED, subject)
        for at in {0, size // 2, size - 1} if size else ():
            other = bytearray(subject)
            other[at] ^= 0x80
            assert sublist.digest_of(bytes(other)) != sublist.digest_of(subject)


@pytest.mark.parametrize("size", [0, 1, SEED_SIZE - 1, SEED_SIZE + 1])
def test_given_a_seed_of_another_size_then_it_is_refused(size: int) -> None:
    with pytest.raises(AssertionError, match="a seed gives four keys"):
        keys_of(bytes(size))


def test_given_two_tables_then_each_has_a_seed_of_its_own() -> None:
    subjects = [b"t.%d" % number for number in range(8)]
    tables = [Sublist() for _ in range(8)]
    assert len({tuple(map(table.digest_of, subjects)) for table in tables}) == 8


def test_given_two_processes_then_each_has_a_seed_of_its_own() -> None:
    command = [sys.executable, "-c", START]
    outputs = {subprocess.check_output(command, cwd=ROOT) for _ in range(3)}
    assert len(outputs) > 1


def of_fnv() -> Iterator[bytes]:
    return (b"".join(blocks) for blocks in product(*OF_FNV))


def swapped() -> Iterator[bytes]:
    """The same words of eight bytes in every order, and the same with another byte."""
    for mark in b"abc":
        words = [b"%c%06d." % (mark, number) for number in range(8)]
        yield from (b"".join(order) for order in permutations(words))


def doubled() -> Iterator[bytes]:
    """Words of which some are there twice: the products of equal words are squares."""
    for number in count():
        word = b"%08d" % number
        yield word * 2
        yield word + word[::-1]


def spread_bits() -> Iterator[bytes]:
    """Subjects of 32 bytes that differ in one bit, in two, in three."""
    for first, second, third in product(range(256), repeat=3):
        if first <= second <= third:
            bits = 1 << first ^ 1 << second ^ 1 << third
            yield (bits ^ int.from_bytes(b"a" * 32, "little")).to_bytes(32, "little")


def runs() -> Iterator[bytes]:
    """One byte, over and over: only the size differs; zero bytes among them."""
    return (bytes([byte]) * size for size in range(1, 256) for byte in range(256))


def counted(pattern: bytes, step: int = 1) -> Callable[[], Iterator[bytes]]:
    """Numbered subjects."""
    return lambda: (pattern % number for number in count(0, step))


def counted_high() -> Iterator[bytes]:
    """Words that differ in their highest bytes alone."""
    return (b"aaaaaa" + number.to_bytes(3, "little") + b"aaaaaaa" for number in count())


ATTACKS = {
    "FNV's": of_fnv,
    "swapped": swapped,
    "doubled": doubled,
    "bits": spread_bits,
    "runs": runs,
    "short": counted(b"%d"),
    "long": counted(b"orders.eu.de.%07d.new"),
    "hexadecimal": counted(b"%016x"),
    "strides": counted(b"t.%016d", 1 << 20),
    "high bytes": counted_high,
}


def test_given_subjects_made_for_fnv_then_it_gives_them_one_digest() -> None:
    assert len({fnv(subject) for subject in islice(of_fnv(), 200)}) == 1


@compiled_only
@pytest.mark.parametrize("attack", ATTACKS)
def test_given_subjects_made_to_collide_then_they_spread_over_the_table(attack: str) -> None:
    for _ in range(depth(1, 20)):
        sublist = Sublist()
        subjects = set(islice(ATTACKS[attack](), HEAVY))
        assert len(subjects) > HEAVY // 2
        for subject in subjects:
            sublist.route(subject)
            sublist.route(subject)  # a large table takes what comes again
        assert sublist.routes == len(subjects)
        assert sublist.evictions == 0, "no chain gets long"
        digests = {sublist.digest_of(subject) for subject in subjects}
        assert len(digests) > len(subjects) - CHANCE
        replies = [0] * 256  # the small table of replies takes the lowest bits
        for value in digests:
            replies[value % 256] += 1
        assert max(replies) < 2 * len(subjects) / 256
