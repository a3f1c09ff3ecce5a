"""The npm package against the broker; tests without breaks are JavaScript, in seriatim_js/."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from broker.version import VERSION
from tests.clients.conftest import FOLDER
from tests.packages.laid import PACKAGE, packed
from tests.packages.runtimes import QUIET, Runtime
from tests.support.places import ROOT, VECTORS
from tests.support.processes import STAND_IN, NatsServer, SeriatimServer
from tests.support.twin_users import TwinUsers

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")
TESTS_S = 600
SOME = {
    "publish": ["own.>", "half.>", "$SEQ.INFO", "$SEQ.PUB.own.>", "$SEQ.PUB.other.>"],
    "subscribe": ["_INBOX.>", "own.>", "$SEQ.FROM.*.>"],
}
USERS = [
    {"user": "some", "password": "some", "permissions": SOME},
    {"user": "dumb", "password": "dumb", "permissions": {"publish": "own.>"}},
]


def run_tests(runtime: Runtime, laid: Path, script: str, **environment: str) -> None:
    done = subprocess.run(
        [*runtime.test, f"./{script}"],
        cwd=laid,
        env={**os.environ, **QUIET, **environment},
        capture_output=True,
        text=True,
        timeout=TESTS_S,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    # `# pass 25` of node, `ok | 25 passed` of Deno, ` 25 pass` of Bun.
    assert re.search(r"# pass [1-9]|\b[1-9]\d* pass", said), said


def test_given_frames_then_the_package_encodes_and_decodes_them(
    runtime: Runtime, laid: Path
) -> None:
    vectors = str(VECTORS / "netstring_frames.json")
    run_tests(runtime, laid, "frames.test.mjs", FRAME_VECTORS=vectors)


def test_given_a_broker_then_all_calls_work_with_each_client_and_frame(
    runtime: Runtime, laid: Path
) -> None:
    more = [f"--listen=127.0.0.1:-1,frame={frame}" for frame in ("header", "none")]
    with SeriatimServer("netstring", arguments=more) as broker:
        urls = [f"nats://127.0.0.1:{port}" for port in broker.ports]
        run_tests(runtime, laid, "calls.test.mjs", BROKER_URLS=",".join(urls))


def test_given_few_permissions_or_no_numbers_then_the_error_says_so(
    runtime: Runtime, laid: Path, tmp_path: Path
) -> None:
    users = TwinUsers({"users": USERS})
    frame = ("--frame", "netstring")
    with users.ours(tmp_path, *frame) as broker, NatsServer() as other:
        urls = {"BROKER_URL": broker, "NATS_URL": other}
        places = {name: f"nats://127.0.0.1:{one.port}" for name, one in urls.items()}
        run_tests(runtime, laid, "refused.test.mjs", **places)


def compile_types(node: str, folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        [node, str(FOLDER / "node_modules/typescript/bin/tsc"), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TESTS_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_given_a_users_program_then_the_compiler_knows_the_types(node: str, laid: Path) -> None:
    modern = ("--module", "nodenext", "--target", "es2022")
    compile_types(node, laid, "--noEmit", "--strict", *modern, "program.mts")


def test_given_the_sources_then_the_types_beside_them_are_theirs(node: str, tmp_path: Path) -> None:
    roots = ("--typeRoots", str(FOLDER / "node_modules/@types"))
    compile_types(node, PACKAGE, "--project", "tsconfig.json", "--outDir", str(tmp_path), *roots)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    kept = {path.name: path.read_text() for path in (PACKAGE / "types").iterdir()}
    wrong = [name for name in made.keys() | kept.keys() if made.get(name) != kept.get(name)]
    assert not wrong, f"{wrong}: make them again with `tsc --project {PACKAGE}/tsconfig.json`"


def test_given_the_package_when_packed_then_it_holds_what_users_need(
    node: str, tmp_path: Path
) -> None:
    _, names = packed(tmp_path)
    sources = [path.stem for path in (PACKAGE / "src").iterdir()]
    expected = [f"src/{name}.js" for name in sources] + [f"types/{name}.d.ts" for name in sources]
    assert names == sorted([*expected, "LICENSE", "README.md", "package.json"])
    about = json.loads((PACKAGE / "package.json").read_text())
    assert about["version"] == VERSION
    assert "dependencies" not in about
    assert (PACKAGE / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_given_no_nats_client_when_it_connects_then_it_says_what_to_install(
    runtime: Runtime, tmp_path: Path
) -> None:
    program = 'import { connect } from "./src/index.js"; await connect();'
    (tmp_path / "program.mjs").write_text(program)
    shutil.copytree(PACKAGE / "src", tmp_path / "src")
    shutil.copy2(PACKAGE / "package.json", tmp_path)
    done = subprocess.run(
        [*runtime.run, "program.mjs"],
        cwd=tmp_path,
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        timeout=TESTS_S,
        check=False,
    )
    assert done.returncode == 1
    assert "no NATS client is installed: npm install nats" in done.stderr


def test_given_the_readme_when_its_first_program_runs_then_it_prints_what_it_published(
    runtime: Runtime, laid: Path
) -> None:
    (first, *_) = re.findall(r"```js\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    assert first.count("\n") <= 7
    with SeriatimServer("netstring") as broker:
        program = first.replace("localhost:4222", f"127.0.0.1:{broker.port}")
        script = laid / "first.mjs"
        script.write_text(program)
        command = [*runtime.run, str(script)]
        with subprocess.Popen(
            command, cwd=laid, env={**os.environ, **QUIET}, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == "1 orders.eu 10 apples\n"
            finally:
                process.kill()
