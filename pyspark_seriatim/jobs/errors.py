"""What a job says when it cannot go on."""


class JobError(RuntimeError):
    """A job cannot be done; the text is one line that says why, and what to do."""


def first_line(error: BaseException) -> str:
    """What an exception of Spark's or Arrow's says, without the trace behind it."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
