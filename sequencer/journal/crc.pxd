# The compiler's view of crc.py: types only, never behaviour.
cimport cython

cdef extern from "crc32c.h":
    unsigned int crc32c_extend(unsigned int crc, const unsigned char *data, size_t size) noexcept
    void crc32c_choose(int tables) noexcept

@cython.locals(text=bytes)
cpdef unsigned int crc32c(object data, unsigned int seed=*)
