"""The installed version of PySpark, and whether this package supports it."""

import re
from importlib.util import find_spec
from typing import Final

NEEDED: Final = (4, 2)  # admission control and Trigger.AvailableNow for Python sources
GET_IT: Final = "pip install '.[spark]' in a checkout of Seriatim"


def version() -> str:
    """The version of the installed PySpark; empty if there is none."""
    if find_spec("pyspark") is None:
        return ""
    import pyspark

    return str(getattr(pyspark, "__version__", "of an unknown version"))


def trouble() -> str:
    """Explain why the installed PySpark cannot be used, and what to do; empty if it can."""
    needed = ".".join(map(str, NEEDED))
    found = version()
    if not found:
        return f"PySpark {needed} or later is not installed: {GET_IT}"
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < NEEDED:
        return f"PySpark {found} is installed, but {needed} or later is needed: {GET_IT}"
    return ""
