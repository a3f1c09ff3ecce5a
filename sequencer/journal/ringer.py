"""The writer's side of the bell (bell.py): one system call for all that is released together."""

import cython

from sequencer.journal.bell import FUTEX

if not cython.compiled:
    import ctypes

    WAKE, ALL = 1, (1 << 31) - 1
    # It never waits, so it need not let other threads run meanwhile.
    syscall = ctypes.PyDLL(None).syscall
    syscall.argtypes = (ctypes.c_long, ctypes.c_size_t, ctypes.c_long, ctypes.c_long)


class Ringer:
    """`address` is that of the word, in the writer's own mapping of the window."""

    def __init__(self, address: int) -> None:
        self.number = FUTEX
        self.address = address

    def ring(self) -> None:
        """Wake everyone who waits."""
        if self.number:
            syscall(self.number, self.address, WAKE, ALL)
