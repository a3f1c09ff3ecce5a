"""What a job says when it cannot go on."""


class JobError(RuntimeError):
    """A job cannot be done; the text is one line that says why, and what to do."""
