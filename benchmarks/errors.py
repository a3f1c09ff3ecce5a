"""The error that ends one run of the benchmark early, with a one-line message."""


class BenchmarkError(Exception):
    """A run that does not count: a server failed, bytes were missing, or a wait timed out."""
