"""docs/operating.md: its table has all that doctor examines, its example the words of doctor."""

import re

from seriatim.cli.doctor import doctor_command
from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "operating.md").read_text()
SECTION = PAGE.split("\n## Examine the machine\n")[1].split("\n## ")[0]
OF_CHECK = {"settings", "security", "tls", "certificate"}


def test_given_the_table_then_it_has_every_probe() -> None:
    rows = re.findall(r"^\| (`.*?) \|", SECTION, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    lists = (doctor_command.of_any_machine, doctor_command.of_a_broker, doctor_command.of_a_store)
    probed = {what for probes in lists for what, _ in probes()}
    assert listed == probed | OF_CHECK | {"names", "clock of others"}


def test_given_the_example_then_its_words_are_doctor_s() -> None:
    sources = "".join(
        file.read_text() for file in (ROOT / "seriatim" / "cli" / "doctor").glob("*.py")
    )
    sources = re.sub(r'"\n\s*f?"', "", sources)
    words = re.findall(r"^ +(?:why|do): +(.+?)(?: \.\.\.)?$", SECTION, re.MULTILINE)
    assert len(words) > 7
    begins = [re.split(r"\d", line)[0] for line in words]
    assert [one for one in begins if one not in sources] == []
