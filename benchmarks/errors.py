"""What ends one run of the benchmark early, said in one line."""


class BenchmarkError(Exception):
    """The run cannot be counted: a server failed, bytes were missing, or a wait ran out."""
