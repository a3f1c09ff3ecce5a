# The compiler's view of group_draw.py: types only, never behaviour.
cimport cython

cdef enum:
    MASK32 = 0xFFFFFFFF
    FIRST_FACTOR = 0x85EBCA6B
    SECOND_FACTOR = 0xC2B2AE35

@cython.locals(bits='unsigned long long')
cpdef unsigned long long draw(unsigned long long number, unsigned long long seed) noexcept
