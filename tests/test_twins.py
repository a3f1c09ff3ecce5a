"""Constants defined twice: in a `.pxd` for the compiler, and in its `.py` for the plain build.

Both are read as text, because one process can load only one of the two builds.
"""

import ast
import importlib
import operator
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from broker.version import hot_modules
from tests.support.places import ROOT

OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.LShift: operator.lshift,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.Sub: operator.sub,
}
ENUM: Final = re.compile(r"^cdef enum:\n((?:    .*\n|\n)+)", re.MULTILINE)


def path_of(module: str, suffix: str) -> Path:
    return ROOT / (module.replace(".", "/") + suffix)


class NotANumber(Exception):
    """A constant is something else: text, a table."""


def number_of(node: ast.expr, known: dict[str, int]) -> int:
    """The value of an expression of numbers and names of known ones. Raises `NotANumber`."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -number_of(operand, known)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return int(OPERATORS[type(op)](number_of(left, known), number_of(right, known)))
        case ast.Name(id=name) if name in known:
            return known[name]
    raise NotANumber(ast.unparse(node))


def enums(text: str) -> dict[str, int]:
    """The constants of every `cdef enum:` in a .pxd, counted as C counts them."""
    found: dict[str, int] = {}
    for block in ENUM.findall(text):
        following = 0
        for item in re.split(r"[,\n]", re.sub(r"#.*", "", block)):
            name, _, value = (part.strip() for part in item.partition("="))
            if not name:
                continue
            assert name not in found, f"{name} stands in two enums"
            found[name] = following = (
                number_of(ast.parse(value, mode="eval").body, {}) if value else following
            )
            following += 1
    return found


class Plain:
    """The constants that a module of the plain build has, by its source alone."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.found: dict[str, int] = {}
        self._sources: list[str] = []  # modules that constants come from
        self._take(ast.parse(path_of(module, ".py").read_text()).body)

    def twin(self, name: str) -> int | None:
        """The number under this name, here or where others of its kind are imported from.

        So in `cdef enum: START, MIDDLE, END` the middle is compared even if the module uses
        only the other two.
        """
        if name not in self.found:
            for other in self._sources:
                self._keep(name, constant(other, name))
        return self.found.get(name)

    def _take(self, statements: list[ast.stmt]) -> None:
        for node in statements:
            match node:
                case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=ast.Attribute(attr="compiled"))):
                    self._take(node.body)
                case ast.If(test=ast.Attribute(attr="compiled")):
                    self._take(node.orelse)
                case ast.ImportFrom(module=str(other), level=0):
                    for alias in node.names:
                        if alias.name.isupper():
                            self._sources.append(other)
                            self._keep(alias.asname or alias.name, constant(other, alias.name))
                case ast.Assign(targets=[target], value=value):
                    self._assign(target, value)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign(target, value)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Tuple(elts=targets), ast.Tuple(elts=values):
                for one, its_value in zip(targets, values, strict=True):
                    self._assign(one, its_value)
            case ast.Tuple(elts=targets), ast.Call(func=ast.Name(id="range")):
                numbers = range(*(number_of(argument, self.found) for argument in value.args))
                for one, number in zip(targets, numbers, strict=True):
                    self._keep(ast.unparse(one), number)
            case ast.Name(id=name), _ if name.isupper():
                with suppress(NotANumber):
                    self.found[name] = number_of(value, self.found)

    def _keep(self, name: str, value: object) -> None:
        if isinstance(value, int):
            self.found[name] = value


def constant(module: str, name: str) -> object:
    """What a module has under this name: a hot one by its source, for it may be compiled."""
    if module in hot_modules():
        return Plain(module).found.get(name)
    return getattr(importlib.import_module(module), name, None)


class PlainNames(ast.NodeVisitor):
    """The names that the plain build reads: not what stands in `if cython.compiled:`."""

    def __init__(self, module: str) -> None:
        self.names: set[str] = set()
        self.visit(ast.parse(path_of(module, ".py").read_text()))

    def visit_Name(self, node: ast.Name) -> None:
        self.names.add(node.id)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == "cython.compiled":
            for statement in node.orelse:
                self.visit(statement)
        else:
            self.generic_visit(node)


@pytest.mark.parametrize("module", hot_modules())
def test_given_a_pxd_then_each_constant_of_its_enums_is_the_python_sides(module: str) -> None:
    plain = Plain(module)
    used = PlainNames(module).names
    for name, value in enums(path_of(module, ".pxd").read_text()).items():
        twin = plain.twin(name)
        if twin is None:  # what only compiled branches read has no twin
            assert name not in used, f"{name} is missing in {module}'s `if not cython.compiled:`"
        else:
            assert value == twin, f"{name} is {value} in the .pxd of {module}, {twin} in its .py"


def test_given_the_pxds_then_these_tests_read_their_enums() -> None:
    everything = [path_of(module, ".pxd").read_text() for module in hot_modules()]
    blocks = sum(len(re.findall(r"^ *(?:cdef|cpdef) enum\b", text, re.M)) for text in everything)
    assert blocks == sum(len(ENUM.findall(text)) for text in everything) > 0
    numbers = enums("cdef enum:\n    A, B = 1 << 4, C  # why\n\ncdef enum:\n    D\n    E = -1\n")
    assert numbers == {"A": 0, "B": 16, "C": 17, "D": 0, "E": -1}
