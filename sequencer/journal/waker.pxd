# The compiler's view of waker.py: types only, never behaviour.
cimport cython

cdef extern from "unistd.h":
    long syscall(long number, size_t address, int operation, int count) noexcept

cdef extern from "crc32c.h":
    unsigned int crc32c_extend(unsigned int crc, const unsigned char *data, size_t size) noexcept
    void crc32c_choose(int tables) noexcept

cdef enum:
    WAKE = 1
    ALL = 2147483647

@cython.locals(word=cython.ulonglong, crc=cython.ulonglong)
cpdef unsigned long long seal_of(unsigned long long number, unsigned int seed)

@cython.final
cdef class Waker:
    cdef long number
    cdef size_t address
    cdef size_t beside
    cdef unsigned int seed

    @cython.locals(seal=cython.ulonglong)
    cpdef announce(self, unsigned long long number)
    cpdef wake(self)
