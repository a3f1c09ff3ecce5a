"""Writes docs/python.md: what `import seriatim` offers, from the signatures and docstrings.

They are read from the sources, so the page is the same whether the client is compiled or not.
"""

import ast
import importlib
import importlib.util
from functools import cache
from pathlib import Path

import seriatim
from handbook.docstrings import as_markdown, code_block

Callable_ = ast.FunctionDef | ast.AsyncFunctionDef
HEAD = """\
# Python

<!-- Written by `python -m handbook`; a test holds it equal. -->

What `import seriatim` offers, name by name. [client.md](client.md) explains it with examples, and
`help(seriatim)` shows the same at a prompt.

With `async with seriatim.connect(...)` you get a `Client`: `await` what it returns, and `async for`
what it reads. With `with seriatim.connect(...)` you get a `BlockingClient`, which has the same
methods without them. `BlockingReader`, `BlockingSubscription` and `BlockingBatch` are to it what
`Reader`, `Subscription` and `StreamBatch` are to the `Client`.
"""
# The names of the client by what they are for; of a class, the members that users need.
PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "Connecting": {"connect": (), "Connecting": ("open",), "Credentials": (), "TlsSettings": ()},
    "The client": {
        "Client": (
            *("publish", "publish_all", "send", "batch", "publish_unconfirmed"),
            *("read", "get", "last", "info", "table"),
            *("subscribe", "request", "respond", "new_inbox"),
            *("flush", "drain", "close", "is_connected", "is_closed", "max_payload"),
        ),
        "ClientEvent": (),
    },
    "What is read": {
        "Reader": ("batches", "aclose"),
        "Message": (
            *("number", "time", "time_ns", "headers", "own_block", "json"),
            *("status", "description"),
        ),
        "Position": (),
        "StreamInfo": ("oldest", "newest"),
        "Subscription": ("next", "unsubscribe", "drain"),
    },
    "What is published": {"StreamBatch": ("publish",), "Expect": ()},
    "Columns": {
        "Table": ("column", "rows", "to_arrow", "to_pandas", "to_polars"),
        "Columns": ("strings", "to_arrow"),
    },
    "On the broker's machine": {"tail": (), "Tail": ("position", "close", "aclose"), "table": ()},
    "A multicast feed": {"Receiver": ("batches", "counters", "troubles", "close")},
    "Frames": {
        "decode_frame": (),
        "encode_frame": (),
        "decode_number": (),
        "FrameDecoder": ("feed", "finish", "pending"),
        "NetstringError": (),
    },
    "The blocking client": {
        "BlockingClient": ("server",),
        "BlockingReader": ("close",),
        "BlockingSubscription": ("join", "is_working"),
        "BlockingBatch": ("first", "last", "rows", "is_repeated"),
    },
    "Errors": {
        "BrokerError": (),
        "ConnectionLost": (),
        "NotABroker": (),
        "NotAuthorized": (),
        "Refused": (),
        "WrongLastNumber": ("last",),
        "NotAllPublished": (),
        "NotFound": (),
        "Unconfirmed": (),
        "Lost": (),
        "JournalChanged": (),
        "NotSeriatim": (),
        "NoResponders": (),
        "NoAnswer": (),
        "SlowSubscriber": (),
        "InvalidArgument": (),
        "MessageTooLarge": (),
    },
}
QUOTE = "'"
WIDE = 92  # columns of a signature in one line


@cache
def module_of(name: str) -> ast.Module:
    """The source of the module that a name comes from."""
    found = importlib.util.find_spec(seriatim._WHERE[name])
    assert found is not None
    assert found.origin is not None
    source = Path(found.origin)
    # A compiled module lies beside its source, `scan.cpython-311-x86_64-linux-gnu.so`.
    return ast.parse(source.with_name(f"{source.name.split('.')[0]}.py").read_text())


def class_of(name: str) -> ast.ClassDef | None:
    """The definition of a class; None if the name is that of a function."""
    for node in module_of(name).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node
    return None


def functions_of(body: list[ast.stmt], name: str) -> list[Callable_]:
    """The definitions of a function: its overloads, and last the one that is run."""
    return [node for node in body if isinstance(node, Callable_) and node.name == name]


def is_property(function: Callable_) -> bool:
    return any(ast.unparse(one).endswith("property") for one in function.decorator_list)


def shown(value: ast.expr, owner: str) -> str:
    """Return a default, or an annotation: of a constant its value, and text as we quote it."""
    if isinstance(value, ast.Name):
        known = getattr(importlib.import_module(seriatim._WHERE[owner]), value.id, None)
        if isinstance(known, str | int | float):
            value = ast.Constant(known)
    text = ast.unparse(value)
    return text if '"' in text else text.replace("'", '"')


def result_of(function: Callable_, all_of_it: list[Callable_]) -> str:
    """Return what a call returns; of an overloaded function, as its first overload has it."""
    returns = all_of_it[0].returns if len(all_of_it) > 1 else function.returns
    return f" -> {ast.unparse(returns).strip(QUOTE)}" if returns else ""


def signature(name: str, overloads: list[Callable_], owner: str) -> str:
    """Return a call of a function, in one line or with a line for each argument."""
    function = overloads[-1]
    arguments = function.args
    listed = [*arguments.posonlyargs, *arguments.args]
    first = [ast.unparse(one) for one in listed]
    for at, default in enumerate(reversed(arguments.defaults), 1):
        first[-at] += f" = {shown(default, owner)}"
    if listed and listed[0].arg == "self":
        first = first[1:]
    if arguments.kwonlyargs:
        first.append(f"*{ast.unparse(arguments.vararg)}" if arguments.vararg else "*")
    for one, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        first.append(ast.unparse(one) + (f" = {shown(given, owner)}" if given else ""))
    result = result_of(function, overloads)
    front = "async " if isinstance(function, ast.AsyncFunctionDef) else ""
    line = f"{front}{name}({', '.join(first)}){result}"
    if len(line) <= WIDE:
        return line
    return f"{front}{name}(\n" + "".join(f"    {one},\n" for one in first) + f"){result}"


def member(overloads: list[Callable_], owner: str) -> str:
    """Return the section of a method, or of a property."""
    function = overloads[-1]
    said = as_markdown(ast.get_docstring(function) or "")
    if is_property(function):
        assert function.returns is not None
        return f"#### `{function.name}`\n\n`{ast.unparse(function.returns)}`: {said}"
    call = code_block(signature(function.name, overloads, owner), "python")
    return f"#### `{function.name}`\n\n{call}\n\n{said}"


def fields_of(node: ast.ClassDef) -> str:
    """Return the declared attributes of a class whose calls are made of them."""
    made = any(ast.unparse(one).startswith(("NamedTuple", "tuple")) for one in node.bases)
    made |= any("dataclass" in ast.unparse(one) for one in node.decorator_list)
    lines = [
        ast.unparse(one).replace(QUOTE, '"')
        for one in node.body
        if isinstance(one, ast.AnnAssign) and not ast.unparse(one.target).startswith("_")
    ]
    return code_block("\n".join(lines), "python") if made and lines else ""


def section(name: str, members: tuple[str, ...]) -> str:
    """Return the section of a name that `seriatim` offers."""
    node = class_of(name)
    if node is None:
        overloads = functions_of(module_of(name).body, name)
        said = as_markdown(ast.get_docstring(overloads[-1]) or "")
        call = code_block(signature(f"seriatim.{name}", overloads, name), "python")
        return f"### `{name}`\n\n{call}\n\n{said}"
    said = as_markdown(ast.get_docstring(node) or "")
    bases = [ast.unparse(one) for one in node.bases if ast.unparse(one) in seriatim.__all__]
    kind = f"A `{bases[0]}`. " if bases else ""
    parts = [f"### `{name}`", kind + said, fields_of(node)]
    parts += [member(functions_of(node.body, one), name) for one in members]
    return "\n\n".join(filter(None, parts))


def page() -> str:
    """Return the page about the client for Python."""
    parts = [HEAD]
    for title, names in PARTS.items():
        parts.append(f"## {title}\n")
        parts += [section(name, members) + "\n" for name, members in names.items()]
    return "\n".join(parts)
