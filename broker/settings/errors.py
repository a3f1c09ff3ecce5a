"""What settings can fail with: all that is wrong, at once."""


class WrongSettings(Exception):
    """Every problem of the settings at once, each with its path and its remedy."""

    def __init__(self, problems: list[str]) -> None:
        assert problems, "no problem, no error"
        self.problems = problems
        if len(problems) == 1:
            super().__init__(problems[0])
        else:
            lines = "".join(f"\n  {problem}" for problem in problems)
            super().__init__(f"{len(problems)} settings are wrong:{lines}")
