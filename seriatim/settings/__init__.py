"""The declaration and the checks of settings; shared by the broker and the Spark source.

    setting     declares one: a field of a dataclass, whose metadata is its documentation
    checked     turns text into a checked value and back, and knows what is allowed
    amounts     kinds: sizes, durations and whole numbers
    subjects    kinds: subjects, with or without wildcards

A table of settings adds its own kinds. Only the standard library is imported here: Spark's
executors have Seriatim's Python sources and nothing else.
"""
