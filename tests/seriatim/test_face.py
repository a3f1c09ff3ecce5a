"""`import seriatim`: every name is there, and a user's own modules are not affected."""

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
import seriatim.client.aio
from seriatim import connect, connect_blocking

async def main():
    async with await connect(sys.argv[1]) as client:
        subscription = await client.subscribe("greetings")
        await client.publish("greetings", b"hello")
        print((await anext(subscription)).data)

asyncio.run(main())
with connect_blocking(sys.argv[1]) as client:
    client.publish("greetings", b"hello")
    client.flush()
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
    with SeriatimServer("none") as broker:
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
        ["b'hello'", "[]", "[True, True, True, True]"],
    )


def test_given_import_seriatim_alone_then_nothing_of_it_is_loaded() -> None:
    code = "import sys, seriatim; print(*[name for name in sys.modules if 'seriatim' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if not name.startswith("_")] == ["seriatim"]
