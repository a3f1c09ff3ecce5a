"""The error of wrong settings, which lists all of them at once."""


class WrongSettings(Exception):
    """All problems of the settings at once, each with its path and remedy.

    `of_arguments`: a flag of the command line is among them.
    """

    def __init__(self, problems: list[str], of_arguments: bool = False) -> None:
        assert problems, "there must be a problem"
        self.problems = problems
        self.of_arguments = of_arguments
        if len(problems) == 1:
            super().__init__(problems[0])
        else:
            lines = "".join(f"\n  {problem}" for problem in problems)
            super().__init__(f"{len(problems)} settings are wrong:{lines}")
