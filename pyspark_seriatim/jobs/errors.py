"""What a job says when it cannot go on."""


class JobError(RuntimeError):
    """A job cannot be done; the text is one line that says why, and what to do."""


class WrongRows(JobError):
    """Rows that were written, or merged, are not those that they were to be: nothing is kept."""


class WrongChain(JobError):
    """A reorg removes other blocks than those that are there: nothing of its batch is kept."""


class WrongSummary(JobError):
    """What the tasks of an audit have found cannot be put together: nothing is proved."""


def first_line(error: BaseException) -> str:
    """What an exception of Spark's or Arrow's says, without the trace behind it."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
