"""Announces the newest number to other processes, and wakes their readers (see wakeup.py).

The number is written into the window and into the file beside it (window_file.py), each time with
its seal: the number's lower half and its checksum in one word. A kill between two of these stores
leaves an older number with a newer seal, or the reverse; the seal alone is enough then.
"""

import cython

from sequencer.journal.wakeup import FUTEX

if not cython.compiled:
    import ctypes

    import google_crc32c

    WAKE, ALL = 1, (1 << 31) - 1
    # It never waits, so it need not let other threads run meanwhile.
    syscall = ctypes.PyDLL(None).syscall
    syscall.argtypes = (ctypes.c_long, ctypes.c_size_t, ctypes.c_long, ctypes.c_long)


def seal_of(number: int, seed: int) -> int:
    """The word that proves a number: its lower half, and above it its checksum."""
    if cython.compiled:
        word = number
        crc = crc32c_extend(seed, cython.cast("const unsigned char *", cython.address(word)), 8)
    else:
        crc = int(google_crc32c.extend(seed, number.to_bytes(8, "little")))
    return crc << 32 | number & 0xFFFFFFFF


class Waker:
    """The writer's side of the wakeup. The addresses are those of the number's words.

    They lie in mappings of its own: `address` in the window, `beside` in the file beside it. The
    seal is in the word after each.
    """

    def __init__(self, address: int, beside: int = 0, seed: int = 0) -> None:
        self.number = FUTEX
        self.address = address
        self.beside = beside
        self.seed = seed

    def announce(self, number: int) -> None:
        """Announce that all up to this number is in the window or on disk; wake the readers."""
        seal = seal_of(number, self.seed)
        if cython.compiled:
            words = cython.cast("unsigned long long *", self.beside)
            words[1] = seal
            words[0] = number
            words = cython.cast("unsigned long long *", self.address)
            words[1] = seal
            words[0] = number
        else:
            for address in (self.beside, self.address):
                ctypes.c_uint64.from_address(address + 8).value = seal
                ctypes.c_uint64.from_address(address).value = number
        self.wake()

    def wake(self) -> None:
        """Wake all waiting readers."""
        if self.number:
            syscall(self.number, self.address, WAKE, ALL)


if cython.compiled:
    crc32c_choose(0)
