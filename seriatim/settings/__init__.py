"""What a setting is, and how text becomes a checked value: for the broker's and for Spark's.

    setting     how one is declared: a field of a dataclass, whose metadata is its documentation
    checked     a setting as text meets it: read, checked, shown, and what it allows
    amounts     kinds: sizes, durations and whole numbers
    subjects    kinds: subjects, with wildcards or without

A table of settings adds kinds of its own. Nothing but the standard library is imported here:
Spark's executors have no more of Seriatim than Python's sources.
"""
