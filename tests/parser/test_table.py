"""The table of transitions, and its drawing in the docs."""

import re
import subprocess
import sys

import pytest

from parser import table
from tests.support.places import ROOT


def test_given_the_docs_then_their_diagram_is_the_tables_own() -> None:
    text = (ROOT / "docs" / "protocol.md").read_text()
    drawn = re.findall(r"```mermaid\n(.*?)\n```", text, re.DOTALL)
    assert drawn == [table.mermaid()], "put the output of `python -m parser.table` there"


def test_given_the_table_when_run_then_it_prints_its_diagram() -> None:
    command = [sys.executable, "-m", "parser.table"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == table.mermaid() + "\n"


def test_given_the_table_then_every_byte_of_every_state_leads_to_a_state() -> None:
    assert len(table.TRANSITIONS) == 256 * len(table.STATE_NAMES)
    assert len(table.STATE_NAMES) <= table.FIRST_FINAL
    known = {*range(len(table.STATE_NAMES)), *table.FINAL_NAMES}
    assert set(table.TRANSITIONS) <= known


@pytest.mark.parametrize("verb", table.VERBS)
def test_given_a_verb_when_walked_in_any_case_then_it_ends_in_its_state(verb: str) -> None:
    ending, final = table.VERBS[verb]
    after = {table.BLANKS: b" \ta", table.LOOSE: b"a", table.REST: b"x\n"}[ending]
    for text in (verb.upper(), verb.lower(), verb.title()):
        state = table.START
        for byte in text.encode() + after:
            state = table.TRANSITIONS[state << 8 | byte]
        assert table.name_of(state) == table.FINAL_NAMES[final]


@pytest.mark.parametrize("verb", table.VERBS)
def test_given_a_verb_when_a_letter_is_wrong_then_the_machine_is_broken_at_once(verb: str) -> None:
    state = table.START
    for byte in verb.encode()[:-1]:
        state = table.TRANSITIONS[state << 8 | byte]
        for wrong in b"\x00\r\n :[z\x7f\xff":
            assert table.TRANSITIONS[state << 8 | wrong] == table.BROKEN


def test_given_the_diagram_then_it_names_every_state_and_mermaid_can_read_it() -> None:
    lines = table.mermaid().splitlines()
    assert lines[0] == "stateDiagram-v2"
    arrow = re.compile(r"    (\[\*\]|\w+) --> (\[\*\]|\w+)(: [^:;]+)?\Z")
    assert all(arrow.match(line) for line in lines[2:]), "no name or label may hold : or ;"
    drawn = set(re.findall(r"\w+", " ".join(line.split(": ")[0] for line in lines[2:])))
    safe = {name.replace("+", "PLUS_").replace("-", "MINUS_") for name in table.STATE_NAMES}
    assert drawn >= safe | set(table.FINAL_NAMES.values()) - {"BROKEN", "ERR_ARGUMENT"}
