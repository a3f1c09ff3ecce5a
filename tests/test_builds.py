"""Two builds, one behaviour: hot modules are compiled and fully typed, and behave the same.

A missing type is silent: the module compiles, and runs at half its speed. So the C is examined.
"""

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from broker.version import HOT_ROOMS, hot_modules, is_compiled
from testkit.programs import digests
from tests.conftest import ROOMS
from tests.support.depth import depth
from tests.support.places import ROOT

HOT_MODULES = hot_modules()
SEEDS = range(depth(120, 400))
GENERATED = ROOT / "build" / "cython"  # as setup.py says it
GENERATE_S = 600.0  # a bound for what hangs: on a busy machine it takes a minute
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: what a class statement makes

compiled_only = pytest.mark.skipif(not is_compiled(), reason="of the compiled build")

# What a message passes through: nothing there may be a Python number, or be looked up by name.
INNERMOST = {
    "parser.machine": "next peek _words _blank _number _wait",
    "sublist.subject": "is_pattern has_wildcard covers",
    "sublist.route": "new_route",
    "sublist.trie": "collect without",
    "sublist.sublist": "find reach fetch digest_of serves _recheck fan_out undenied",
    "sequencer.journal.record": "put next skim _read record_size",
    "sequencer.feed.netstrings": "measure put netstring",
    "sequencer.feed.network": "write_number read_number",
    "sequencer.feed.binary": "measure put seal _head",
    "sequencer.feed.moldudp64": "measure put seal _head",
    "sequencer.feed.datagrams": "reserve add send_safe _send _wait _forget",
    "sequencer.feed.feed": "add_records flush _make_room _close",
    "seriatim.receiver.holes": "cover _append find",
    "seriatim.receiver.order": "offer is_sound _after_of",
    "seriatim.receiver.arrivals": "read _receive _size _part",
    "sequencer.sequencer": "assign_number release",
    "sequencer.replica.forward_copies": "add size_at free _block_of",
    "sequencer.replica.forward_table": "put note settle _inspect _mark _find _add_row",
    "sequencer.replica.numbering": "submit _number",
    "broker.dataplane.frame": "write_head _write_headers_head _sizes expire write_line has_line_of"
    " _count_up _frame_head _copy _literal _decimal _bare_headers _lay_out _fields _fields_size"
    " _change_time _number_header is_simple",
    "broker.dataplane.time_text": "write _write_pair",
    "sequencer.digits": "width_of inner_size frame_size write_decimal write_netstring",
    "broker.dataplane.connection": "deliver write held buffered position _adopt",
    "broker.dataplane.gate": "mark_dirty say",
    "broker.dataplane.outbox_writer": "offer expire _make_room",
    "broker.dataplane.guard": "may_publish",
    "broker.dataplane.plane": "_publish _may_publish describe _offer _offer_group submit is_spent",
    "broker.dataplane.staged_rows": "check publish pass_over",
    "broker.dataplane.replay_writer": "play _covered _offer",
    "broker.cquencer.cquencer_client": "number emptied",
    "broker.cquencer.cquencer_port": "_poll _tick _serve _read _receive _walk _head _take _query"
    " _settle _answer _send",
}
FORBIDDEN = re.compile(
    r"\b(?:__Pyx_PyObject_(?:GetAttr|SetAttr)\w*|__Pyx_GetModuleGlobalName"
    r"|__Pyx_Py(?:Number|Int|Bool)_\w+|PyNumber_\w+|__Pyx_PyLong_(?:From|As)_\w+"
    r"|__Pyx_PyObject_CompareBool\w+_int_int|PyObject_RichCompare\w*)(?=\()"
)
# Whether a class in Python overrides a method of a class that is not final: one look at a flag.
OVERRIDDEN = re.compile(r"^  if \(unlikely\(__pyx_skip_dispatch\)\) ;\n.*?^  \}\n", re.M | re.S)
FUNCTION = re.compile(r"^static [^\n;]*?\b__pyx_f_(\w+)\([^;{]*\) \{\n(.*?)^\}\n", re.M | re.S)
BY_NAME = re.compile(
    r"__Pyx_PyObject_(?:GetAttrStr|SetAttrStr|FastCallMethod|CallMethod\w*)\([^;]*?"
    r"__pyx_n_u_(\w+)"
)
# Names of hot classes that plain Python has too: the control, the window of ids, stores, lists,
# what a codec in plain Python overrides, what a loss and an end say; and the feeds of a sequencer,
# whose modules a broker without them does not load.
OTHERS = {
    "broker.clients.gatherer": {  # of the core and the epoll, once a turn
        *("advance", "clear", "close", "closed", "plane", "turn"),
        *("read_on", "receive"),  # of a client behind TLS or WebSocket, once a read
    },
    "broker.clients.subscriptions": {  # of the control, the core, groups that span a cluster
        *("abandon", "groups", "left", "plane", "sublist"),
        *("begin", "end"),  # of an operation that waits for a cluster
    },
    "broker.cluster.cluster_plane": {"settled"},  # of the cquencer port, once for each delivery
    "broker.cquencer.cquencer_client": {"clear", "number_of", "time"},
    "broker.dataplane.gate": {"clear", "detached", "flush", "release_safe"},
    "broker.dataplane.plane": {"add", "clear", "find", "no_responders", "unsubscribe"},
    "broker.cquencer.cquencer_port": {"clear", "close", "closed", "ending", "reply", "wake"},
    "sequencer.feed.feed_codec": {"datagram", "head"},
    "sequencer.feed.feed": {"end", "heartbeat"},
    "seriatim.client.stream_message": {"number"},  # in what is shown and pickled
    "seriatim.client.scan": {"clear", "end", "groups", "known"},  # of the uncompiled scan
    "seriatim.client.stream_publishing": {
        *("clear", "first", "headers", "journal", "last", "max_payload", "remove", "time", "write"),
        *("deadline", "floor", "future", "is_again", "sent_at", "subject"),  # after a break
        "add",
    },
    "seriatim.receiver.holes": {"after", "first", "last"},
    "sequencer.replica.numbering": {"add", "find", "keep", "newest"},
    "sequencer.sequencer": {
        *("checked", "epoch", "last", "reserve", "room", "salt", "write", "write_position"),
        *("add_records", "flush"),
    },
}


def of_setup(name: str) -> Any:
    """A constant or a function of setup.py, which cannot be imported: it would begin to build."""
    tree = ast.parse((ROOT / "setup.py").read_text())
    for node in tree.body:
        named = node.targets[0] if isinstance(node, ast.Assign) else node
        if name in (getattr(named, "id", ""), getattr(named, "name", "")):
            space: dict[str, Any] = {"Path": Path}
            exec(compile(ast.Module([node], []), "setup.py", "exec"), space)
            return space[name]
    raise AssertionError(f"setup.py has no {name}")


def source(module: str, suffix: str) -> str:
    return (ROOT / (module.replace(".", "/") + suffix)).read_text()


def classes(module: str) -> list[str]:
    """The classes of a hot module, which are all to be extension types."""
    return re.findall(r"^class (\w+)", source(module, ".py"), re.MULTILINE)


def declared(module: str) -> set[str]:
    """The attributes and methods that the .pxd of a hot module gives its classes."""
    found: set[str] = set()
    text = source(module, ".pxd").split("cdef class", 1)[-1]
    for line in re.findall(r"^    (?:cdef|cpdef) (.+)", text, re.MULTILINE):
        head = line.split("(")[0]
        names = [part.split()[-1].strip("*") for part in head.split(",")]
        found |= {re.sub(r"\[.*", "", name) for name in names}
    return found


def test_given_setup_then_it_builds_the_modules_that_the_broker_calls_hot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    assert of_setup("hot_modules")() == HOT_MODULES
    assert set(HOT_ROOMS) == {path.parent.name for path in ROOT.glob("*/__init__.pxd")}
    types = {path for room in ROOMS for path in (ROOT / room).rglob("*.pxd")}
    assert {path.relative_to(ROOT).parts[0] for path in types} == set(HOT_ROOMS)


@pytest.mark.parametrize("module", HOT_MODULES)
def test_given_a_hot_module_then_its_types_stand_in_a_pxd_beside_it(module: str) -> None:
    text = source(module, ".pxd")
    assert (ROOT / (module.replace(".", "/") + ".py")).exists(), "types of a module that is gone"
    assert re.findall(r"^cdef class (\w+)", text, re.MULTILINE) == classes(module)
    # What has methods that another class overrides: codecs, a member's plane, kinds of subjects,
    # what waits for records and acks.
    bases_of_others = "Codec|Plane|Kinds|RecordWatcher|AckTaker"
    codecs = re.findall(
        rf"^cdef class (?:(?:{bases_of_others})\b|\w+\((?:{bases_of_others})\))", text, re.M
    )
    final = text.count("@cython.final\ncdef class")
    methods = "(" in text.partition("cdef class")[2]
    bases = 0 if methods else text.count("\ncdef class") - final  # of attributes alone
    expected = len(classes(module))
    assert final + len(codecs) + bases == expected, "final: no vtable, but for what is overridden"
    assert "def " not in re.sub(r"\b(cdef|cpdef) ", "", text), "types only, never behaviour"
    folders = (ROOT / module.replace(".", "/")).relative_to(ROOT).parents
    assert all((ROOT / folder / "__init__.pxd").exists() for folder in list(folders)[:-1])


@compiled_only
@pytest.mark.parametrize("module", HOT_MODULES)
def test_given_the_compiled_build_then_hot_classes_are_extension_types(module: str) -> None:
    loaded = importlib.import_module(module)
    assert loaded.__file__ is not None
    assert loaded.__file__.endswith(tuple(EXTENSION_SUFFIXES))
    for name in classes(module):
        made = getattr(loaded, name)
        assert not made.__flags__ & HEAP_TYPE, f"{module}.{name} is a Python class"
        assert made.__dictoffset__ == 0, f"an instance of {module}.{name} has a __dict__"


@compiled_only
@pytest.mark.parametrize(
    "name",
    [
        "parser.machine.Parser",
        "sublist.subscription.Subscription",
        "sublist.trie.Node",
        "sublist.trie.Trie",
        "sublist.route.Fanout",
        "sublist.route.Route",
        "sublist.sublist.Sublist",
        "sequencer.message.Message",
        "sequencer.sequencer.Sequencer",
        "broker.dataplane.frame.Frame",
        "broker.dataplane.time_text.TimeText",
        "sequencer.feed.feed_message.FeedMessage",
        "sequencer.feed.datagrams.Datagrams",
        "sequencer.feed.feed.Feed",
        "sequencer.journal.record.RecordBatch",
        "sequencer.journal.record.Walk",
        "sequencer.replica.forward_copies.ForwardCopies",
        "sequencer.replica.forward_table.ForwardTable",
        "sequencer.replica.numbering.Numbering",
        "broker.dataplane.connection.Connection",
        "broker.dataplane.gate.Gate",
        "broker.dataplane.outbox_writer.OutboxWriter",
        "broker.dataplane.plane.Plane",
        "broker.dataplane.staged_rows.Staged",
        "broker.dataplane.replay_writer.ReplayWriter",
        "broker.cquencer.cquencer_client.CquencerClient",
        "broker.cquencer.cquencer_port.CquencerPort",
    ],
)
def test_given_the_compiled_build_then_nothing_can_be_added_to_these(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    made = getattr(importlib.import_module(module), attribute)
    with pytest.raises(TypeError, match="immutable type"):
        made.anything = 1


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    """The C of every hot module, without comments: what the build left, unless that is older.

    It is made in the build's own folder and in its way, so that neither makes it a second time.
    Cython translates what a changed source reaches; all of it, if other directives may be given.
    """
    if not is_compiled():
        pytest.skip("of the compiled build")
    files = {module: GENERATED / (module.replace(".", "/") + ".c") for module in HOT_MODULES}
    sources = [ROOT / "setup.py"]
    for room in ROOMS:
        sources += [*(ROOT / room).rglob("*.pxd"), *(ROOT / room).rglob("*.h")]
    sources += [ROOT / (module.replace(".", "/") + ".py") for module in HOT_MODULES]
    made = [file.stat().st_mtime for file in files.values() if file.exists()]
    newest = max(source.stat().st_mtime for source in sources)
    if len(made) < len(files) or min(made) < newest:
        program = (
            "import sys; from Cython.Build import cythonize;"
            "cythonize([m.replace('.', '/') + '.py' for m in sys.argv[4:]], build_dir=sys.argv[1],"
            " compiler_directives=eval(sys.argv[2]), force=sys.argv[3] == 'all', quiet=True)"
        )
        folder, directives = str(GENERATED.relative_to(ROOT)), repr(of_setup("DIRECTIVES"))
        is_known = len(made) == len(files) and min(made) > (ROOT / "setup.py").stat().st_mtime
        what = "changed" if is_known else "all"
        command = [sys.executable, "-c", program, folder, directives, what, *HOT_MODULES]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=GENERATE_S)
    found = {}
    for module, file in files.items():
        text = file.read_text()
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        found[module] = OVERRIDDEN.sub("", text)
    return found


@pytest.mark.parametrize("module", HOT_MODULES)
def test_given_the_c_then_no_attribute_of_a_hot_class_is_looked_up_by_name(
    generated: dict[str, str], module: str
) -> None:
    ours = {name for one in HOT_MODULES for name in declared(one)}
    assert {"delivered", "find", "subject_end", "queue", "_offer"} <= ours
    by_name = set(BY_NAME.findall(generated[module]))
    untyped = sorted(by_name & ours - OTHERS.get(module, set()))
    assert untyped == [], "a local without a type: name it in @cython.locals of the .pxd"


@pytest.mark.parametrize("module", INNERMOST)
def test_given_the_c_then_what_every_message_passes_through_makes_no_python_objects(
    generated: dict[str, str], module: str
) -> None:
    bodies = {name: body for name, body in FUNCTION.findall(generated[module])}
    for wanted in INNERMOST[module].split():
        found = [
            body for name, body in bodies.items() if re.search(rf"\d{wanted}\Z|_{wanted}\Z", name)
        ]
        assert found, f"{module}: no C function {wanted}; does the .pxd still name it?"
        calls = {call for body in found for call in FORBIDDEN.findall(body)}
        assert sorted(calls) == [], f"{module}: {wanted} lacks a type in the .pxd"


@compiled_only
def test_given_random_programs_then_the_uncompiled_build_says_the_same_to_the_byte(
    tmp_path: Path,
) -> None:
    plain = shutil.ignore_patterns("*.so", "__pycache__")
    for folder in (*ROOMS, "testkit"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=plain)
    command = [sys.executable, "-m", "testkit.programs", str(SEEDS.start), str(SEEDS.stop)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == digests(SEEDS)


def test_given_both_builds_of_some_modules_then_it_is_refused_with_what_to_do(
    tmp_path: Path,
) -> None:
    for room in ROOMS:
        plain = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / room, tmp_path / room, ignore=plain)
    (tmp_path / "sublist" / f"trie{EXTENSION_SUFFIXES[0]}").touch()
    program = "from broker.version import is_compiled; is_compiled()"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        "MixedBuild: broker.clients.gatherer, broker.clients.inbox, broker.clients.subscriptions, "
        in done.stderr
    )
    assert "install again, or delete the .so files" in done.stderr
