"""What the command line can fail with: always clear lines for a person, never a traceback."""


class CliError(Exception):
    """The command cannot go on; `str()` is what the user reads, on standard error."""


class WrongSettings(CliError):
    """Every problem of the settings at once, each with its path and its remedy."""

    def __init__(self, problems: list[str]) -> None:
        assert problems, "no problem, no error"
        self.problems = problems
        if len(problems) == 1:
            super().__init__(problems[0])
        else:
            lines = "".join(f"\n  {problem}" for problem in problems)
            super().__init__(f"{len(problems)} settings are wrong:{lines}")
