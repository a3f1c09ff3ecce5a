"""Errors of `seriatim cardinal`: one clear line, and nothing on standard output."""

import socket
from pathlib import Path

import pytest

from seriatim.cli import main
from seriatim.cli.errors import FAILED
from seriatim.settings.usage import USAGE

GOOD = '{"number": 1, "hash": "0x01", "parent": "0x00"}\n'


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> object:
    def run(*arguments: str) -> str:
        assert main(["cardinal", *arguments]) in (FAILED, USAGE)
        done = capsys.readouterr()
        assert done.out == ""
        assert done.err.startswith("seriatim: ")
        return done.err.removeprefix("seriatim: ").rstrip("\n")

    return run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("produce", "Missing argument 'FILE.jsonl'"),
        ("produce /nowhere", "/nowhere: cannot be read: No such file or directory"),
        ("produce /dev/null -a a.b", '--application: "a.b" is not one word'),
        ("produce /dev/null --topic a", '--topic: "a" is not PATTERN=TOPIC'),
        ("produce /dev/null --topic a=b --topic a=c", 'the pattern "a" is given twice'),
        ("produce /dev/null --topic a=b --schema x", "give --schema or --topic, not both"),
        ("produce /dev/null --schema /nowhere", "/nowhere: cannot be read: No such file"),
        ("produce /dev/null --topic a/=b --topic a/b=c", "unreachable"),
        ("produce /dev/null --topic (=c", "'('"),
        ("produce /dev/null --default re.=", "topic"),
        ("consume --track a/", "--track needs --schema, or --topic"),
        ("consume --topic a/=t --track a/b", "--track: cannot track 'a/b'"),
        ("consume --token x=1", "--token goes with --after-block"),
        ("consume --after-block 0x01 --token x", "--token: 'x' is not stream=number"),
        ("consume --after-block 0x01 --from-block 1", "not both"),
        ("consume --after-block 1", '--after-block: "1" is not hex after 0x'),
        ("consume --from-block -- -1", "neither the number"),
        ("consume --from-block x", '--from-block: "x" is neither the number of a block nor a'),
        ("consume -s http://x", "is not the address of a broker"),
        ("inspect /nowhere", "/nowhere"),
        ("inspect --block 1", '--block: "1" is not a hash or the beginning of one'),
        ("inspect /etc/hostname", "a record has no length; is this a capture?"),
        ("inspect /etc/hostname --capture a", "a record has no length; is this a capture?"),
        ("inspect /etc/hostname --capture -", "a record has no length; is this a capture?"),
        ("inspect /etc --from 5 --to 2", "--to 2 is before --from 5"),
        ("simulate --lines -", "give a file"),
        ("simulate --lines a --capture b", "give --lines or --capture, not both"),
        ("simulate --lines /nowhere/a", "/nowhere/a: cannot be written: No such file"),
        ("simulate --schema /nowhere/a", "/nowhere/a: cannot be written: No such file"),
        ("consume --capture /nowhere", "/nowhere: cannot be read: No such file"),
        ("consume --capture /etc/hostname", "/etc/hostname: byte 0: a record has no length"),
        ("simulate --loss 2", "--loss: 2.0 is out of range; give 0 to 1"),
    ],
)
def test_given_wrong_flags_when_run_then_the_line_says_which(
    arguments: str, words: str, refusal: object
) -> None:
    assert callable(refusal)
    assert words in refusal(*arguments.replace("-- ", "").split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("simulate --lines a --loss 0.1", "--loss: has no effect with --lines"),
        ("simulate --lines a --producers 1 -a b", "--application, --producers: has no effect with"),
        ("simulate --lines a --reorder 0", "--reorder: has no effect with --lines"),
        ("simulate --lines a --duplicates 0", "--duplicates: has no effect with --lines"),
        ("simulate --lines a --rate 1", "--rate: has no effect with --lines"),
        ("simulate --lines a -s x", "--url: has no effect with --lines"),
        ("simulate --capture a --rate 1", "--rate: has no effect with --capture"),
        ("simulate --capture a -a b", "--application: has no effect with --capture"),
        ("simulate --capture a --url x", "--url: has no effect with --capture"),
        ("consume --default x", "--default: has no effect without --topic"),
        ("consume --default x --schema y", "--default: has no effect with --schema"),
        ("produce /dev/null --default x --schema y", "--default: has no effect with --schema"),
        ("inspect --capture a --missing --json", "--missing, --json: has no effect with --capture"),
        ("consume --capture a -a b -s c", "--application, --url: has no effect with --capture"),
    ],
)
def test_given_a_flag_that_says_nothing_when_run_then_both_flags_are_named(
    arguments: str,
    words: str,
    refusal: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert callable(refusal)
    assert refusal(*arguments.split()).startswith(words)
    assert list(tmp_path.iterdir()) == []


def test_given_a_url_in_the_environment_when_lines_are_simulated_then_it_may_stand_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERIATIM_URL", "127.0.0.1:1")
    assert main(["cardinal", "simulate", "--blocks", "2", "--lines", str(tmp_path / "a")]) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("standard = 1", '"standard" is unknown; the keys are default and topics'),
        ("", "default: give the topic for all other keys"),
        ('default = "t"\ntopics = 3', "topics: give a table"),
        ("default =", "not valid TOML: "),
        ('default = "t"\n[topics]\n"a/" = "x y"\n"a/b" = "z"', "2 problems:\n  "),
    ],
)
def test_given_a_wrong_schema_when_read_then_the_line_says_what(
    text: str, words: str, refusal: object, tmp_path: Path
) -> None:
    file = tmp_path / "schema.toml"
    file.write_text(text)
    assert callable(refusal)
    said = refusal("produce", "/dev/null", "--schema", str(file))
    assert said.startswith(f"{file}: ")
    assert words in said


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2: not valid JSON"),
        ('{"number": 1, "hash": "01", "parent": "0x0"}', 'line 2: hash: "01" is not hex'),
        (
            '{"number": 2, "hash": "0x2", "parent": "0x1", "updates": {"a": "0x"}, '
            '"deletes": ["a"]}',
            "line 2: 'a' is both set and deleted",
        ),
        (
            '{"number": 2, "hash": "0x2", "parent": "0x1", "updates": {"\\ud800": "0x"}}',
            "line 2: the key '\\ud800' is not text",
        ),
        ('{"number": 2, "hash": "0x2", "parent": "0x2"}', "line 2: parent: 0x02 is the block"),
        ('{"number": 1, "hash": "0x2", "parent": "0x1"}', "line 2: number: 1 is not above"),
        ('{"number": 1, "hash": "0x1", "parent": "0x3"}', "line 2: hash: 0x01 is another block"),
        (
            '{"reorg": {"number": 5, "hash": "0x7", "weight": 1}, "blocks": '
            '[{"number": 2, "hash": "0x2", "parent": "0x7"}]}',
            "line 2: blocks[0].number: 2 is not above the ancestor's, 5",
        ),
    ],
)
def test_given_a_wrong_line_when_produced_then_nothing_is_published(
    line: str, words: str, refusal: object, tmp_path: Path
) -> None:
    file = tmp_path / "blocks.jsonl"
    file.write_text(GOOD + line)
    assert callable(refusal)
    assert refusal("produce", str(file), "-s", "127.0.0.1:1").startswith(f"{file}: {words}")


@pytest.mark.parametrize("command", ["produce", "consume", "simulate"])
def test_given_no_broker_when_run_then_the_line_says_so(
    command: str, refusal: object, tmp_path: Path
) -> None:
    file = tmp_path / "blocks.jsonl"
    file.write_text(GOOD)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        assert callable(refusal)
        arguments = [command, *([str(file)] if command == "produce" else []), "-s", address]
        assert f"{address}: connection refused: no broker listens there" in refusal(*arguments)
