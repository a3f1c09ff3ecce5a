"""The errors of jobs."""


class JobError(RuntimeError):
    """An error that ends a job; the text says in one line why, and what to do."""


class WrongArguments(JobError):
    """The arguments of a job are wrong."""


class WrongRows(JobError):
    """Rows that were written, or merged, are not the expected ones: nothing is kept."""


class WrongChain(JobError):
    """A reorg removes blocks other than those in the tables: nothing of its batch is kept."""


class WrongSummary(JobError):
    """The findings of an audit's tasks do not fit together: the audit is not valid."""


def first_line(error: BaseException) -> str:
    """The first line of an exception of Spark's or Arrow's, without the stack trace."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
