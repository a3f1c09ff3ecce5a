"""`import seriatim`: every name is there, and a user's own modules are not affected."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import seriatim
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer

OURS = ("parser", "broker", "sublist", "sequencer")
# As a user has it: a script, with modules of its own beside it, which come before ours.
SCRIPT = """
import asyncio, sys
import seriatim

async def main():
    async with seriatim.connect(sys.argv[1]) as stream:
        subscription = await stream.subscribe("greetings")
        number = await stream.publish("greetings", b"hello")
        message = await anext(subscription)
        print(message.payload, message.number == number)
        async with stream.batch() as batch:
            await batch.publish("greetings", b"again")
        async for message in stream.read(start=number, until="now"):
            print(message.payload)
        print(len(await stream.table()))

asyncio.run(main())
with seriatim.connect(sys.argv[1]) as stream:
    print(stream.publish("greetings", b"hello"))
    print([message.payload for message in stream.read(until="now")])
print(sorted({"parser", "broker", "sublist", "sequencer"} & set(sys.modules)))
import parser, broker, sublist, sequencer
print([module.MINE for module in (parser, broker, sublist, sequencer)])
"""


def test_given_names_of_the_face_then_each_is_there_and_of_its_own_module() -> None:
    for name in seriatim.__all__:
        found = getattr(seriatim, name)
        assert name == "__version__" or found.__name__ == name
    assert set(seriatim.__all__) <= set(dir(seriatim))
    assert seriatim.__version__[0].isdigit()
    with pytest.raises(AttributeError, match="seriatim has no nothing"):
        seriatim.nothing  # noqa: B018


def test_given_modules_of_the_users_with_names_of_ours_then_the_client_works_beside_them(
    tmp_path: Path,
) -> None:
    for name in OURS:
        (tmp_path / f"{name}.py").write_text("MINE = True\n")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with SeriatimServer() as broker:
        done = subprocess.run(
            [sys.executable, str(script), f"nats://127.0.0.1:{broker.port}"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
            check=False,
        )
    assert (done.stderr, done.stdout.splitlines()) == (
        "",
        [
            "b'hello' True",
            "b'hello'",
            "b'again'",
            "2",
            "3",
            "[b'hello', b'again', b'hello']",
            "[]",
            "[True, True, True, True]",
        ],
    )


def mypy(folder: Path, program: str) -> str:
    """What mypy says of a user's program."""
    (folder / "program.py").write_text(program)
    options = ["--strict", "--follow-imports=silent", "--cache-dir", str(folder / "cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "program.py"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"MYPYPATH": f"{ROOT}:{ROOT / 'typings'}", "PATH": ""},
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def test_given_a_program_with_every_word_of_the_client_then_its_types_are_right(
    tmp_path: Path,
) -> None:
    program = (ROOT / "tests" / "support" / "client_program.py").read_text()
    assert mypy(tmp_path, program) == "Success: no issues found in 1 source file\n"
    wrong = program.replace("number: int = await stream.publish(", "number: str = stream.publish(")
    assert 'variable has type "str"' in mypy(tmp_path, wrong)
    wrong = program.replace('losses="yield") as items', 'losses="wrong") as items')
    assert 'No overload variant of "read" of "Client" matches' in mypy(tmp_path, wrong)


def test_given_help_then_it_is_a_page_with_each_name_and_a_sentence_about_it() -> None:
    command = [sys.executable, "-m", "pydoc", "seriatim"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    page = done.stdout
    assert page.startswith("Help on package seriatim:\n\nNAME\n    seriatim - Seriatim: a broker")
    assert "async with seriatim.connect(" in page[:1000]
    for name in set(seriatim.__all__) - {"__version__"}:
        assert re.search(rf"^    (class )?{name}\b", page, re.MULTILINE), name
        assert inspect.getdoc(getattr(seriatim, name)), name
    assert "object at 0x" not in page  # a default that says nothing


def test_given_the_client_then_each_public_word_of_it_has_its_sentence() -> None:
    for name in seriatim.__all__:
        found = getattr(seriatim, name)
        for word, value in inspect.getmembers(found) if inspect.isclass(found) else ():
            is_ours = str(getattr(value, "__module__", "")).startswith("seriatim.client")
            if is_ours and callable(value) and not word.startswith("_"):
                assert inspect.getdoc(getattr(found, word)), f"{name}.{word}"


def test_given_both_faces_then_they_have_the_same_words() -> None:
    blocking, asynchronous = calls(seriatim.BlockingClient), calls(seriatim.Client)
    # What a connection calls, and the first connecting, which `seriatim.connect` does.
    assert set(asynchronous) - set(blocking) == {
        *("messages_arrived", "refused", "wire_lost", "open")
    }
    for word, ours in blocking.items():
        assert set(asynchronous[word]) - set(ours) <= {"confirm"}, word


def calls(face: type) -> dict[str, list[str]]:
    """The public methods of a class, and the names of their arguments."""
    return {
        word: list(inspect.signature(value).parameters)
        for word, value in vars(face).items()
        if not word.startswith("_") and callable(value)
    }


def test_given_import_seriatim_alone_then_nothing_of_it_is_loaded() -> None:
    code = "import sys, seriatim; print(*[name for name in sys.modules if 'seriatim' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if not name.startswith("_")] == ["seriatim"]
