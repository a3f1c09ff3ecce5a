# The compiler's view of window_guard.py: types only, never behaviour.
cimport cython

cdef extern from "window_guard.h":
    struct window_guard:
        int count, lost

    window_guard *guard_begin(size_t address, size_t size, int fd, int locked) noexcept
    void guard_end(window_guard *guard) noexcept
    int guard_heal(window_guard *guard) noexcept

    int GUARD_GONE, GUARD_NO_PAGE

@cython.final
cdef class WindowGuard:
    cdef window_guard *guard
    cdef readonly str file
    cdef readonly int fd
    cdef Py_ssize_t size

    @cython.locals(error=int)
    cpdef check(self)
    cpdef check_size(self)
    cpdef check_content(self)
