"""Each test asserts something that an empty result fails.

`assert not errors` alone also passes if nothing ran, and `all(...)` if nothing was found. Next to it belongs what the
test expects to find: the value of the other case, a count, or `pytest.raises`.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.support.checkout import CHECKOUT

TESTS = CHECKOUT / "tests"

ACCEPTED: set[str] = set()
"""Tests (`file::test`) that assert negatives alone. This list may only shrink."""

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FAILS = {"raises", "warns", "fail", "timeout", "wait_for", "run_state_machine_as_test"}
FAILS |= {"assert_df_equality", "check_schema", "validate"}
"""Calls that fail unless something happens, or is as libraries want it."""
SKIPS = {"skip", "skipif", "importorskip"}


def _called(node: ast.AST) -> str:
    """Return the name of the function or method that a node calls."""
    function = getattr(node, "func", None) if isinstance(node, ast.Call) else None
    return getattr(function, "id", getattr(function, "attr", ""))


def _filters(node: ast.expr) -> bool:
    """Return whether a value is what a comprehension or an intersection lets pass, or its number."""
    if isinstance(node, COMPREHENSIONS):
        return any(generator.ifs for generator in node.generators)
    if isinstance(node, ast.Call):
        return len(node.args) == 1 and _filters(node.args[0])
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd)


def _proves_nothing(node: ast.expr) -> bool:
    """Return whether a condition is true of what is absent or empty, or of every number."""
    proves_nothing = False
    match node:
        case ast.BoolOp():
            proves_nothing = all(map(_proves_nothing, node.values))
        case ast.UnaryOp(op=ast.Not()):
            proves_nothing = not _proves_nothing(node.operand)
        case ast.Compare(ops=[ast.NotIn()]) | ast.Compare(ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            proves_nothing = True
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            proves_nothing = _filters(left) and ast.unparse(right) in {"[]", "{}", "set()", "0"}
        case ast.Compare(left=left, ops=[ast.GtE()], comparators=[ast.Constant(value=0)]):
            proves_nothing = _called(left) in {"len", "count", "abs"}
        case ast.Call(args=[ast.GeneratorExp(generators=[generator, *_])]) if _called(node) == "all":
            proves_nothing = not isinstance(generator.iter, ast.Tuple | ast.List)
    return proves_nothing


@cache
def _contents(function: ast.AST) -> tuple[list[ast.expr], set[str]]:
    """Return the conditions that a function asserts, and the names that it calls."""
    nodes = list(ast.walk(function))
    return [node.test for node in nodes if isinstance(node, ast.Assert)], set(map(_called, nodes))


def _asserts(function: ast.AST, helpers: frozenset[str]) -> bool:
    """Return whether a function fails if nothing happens, itself or by a helper."""
    conditions, calls = _contents(function)
    return not all(map(_proves_nothing, conditions)) or bool(calls & (FAILS | helpers))


@cache
def _parsed(file: Path) -> tuple[list[ast.ImportFrom], list[ast.AST]]:
    """Return the imports and the functions of a file."""
    nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return imports, [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


@cache
def _helpers(file: Path) -> frozenset[str]:
    """Return the names of functions that assert: those of a file, and of the files of tests that it imports."""
    imports, functions = _parsed(file)
    modules = {CHECKOUT.joinpath(*node.module.split(".")) for node in imports}
    paths = {path.with_suffix(".py") for path in modules}
    helpers = frozenset().union(*(_helpers(path) for path in paths if TESTS in path.parents and path.is_file()))
    while more := {each.name for each in functions if each.name not in helpers and _asserts(each, helpers)}:
        helpers |= more
    return helpers


def _tests_of_nothing(file: Path) -> list[str]:
    """Return the tests of a file that assert negatives alone, or nothing at all."""
    tests = [each for each in _parsed(file)[1] if each.name.startswith("test_")]
    return [test.name for test in tests if not _asserts(test, _helpers(file))]


def test_each_test_asserts_more_than_what_is_absent():
    files = sorted(TESTS.rglob("test_*.py"))
    found = {f"{file.relative_to(TESTS)}::{name}" for file in files for name in _tests_of_nothing(file)}
    assert len(files) > 100
    assert found == ACCEPTED, "assert what is there, too"


def test_what_is_skipped_fails_in_ci():
    """Only `need` skips a test."""
    trees = {file.relative_to(TESTS): ast.parse(file.read_text("utf-8")) for file in TESTS.rglob("*.py")}
    skipping = {str(file) for file, tree in trees.items() if SKIPS & set(map(_called, ast.walk(tree)))}
    assert skipping == {"support/needs.py"}


@pytest.mark.parametrize(
    ("condition", "proves_nothing"),
    [
        ("name not in names", True),
        ("heavy & set(modules) == set()", True),
        ("not client.errors and lease.lost is None", True),
        ("[file for file in files if not file.exists()] == []", True),
        ("len([row for row in rows if row.late]) == 0", True),
        ("all(row.late for row in rows)", True),
        ("len(rows) >= 0", True),
        ("rows == []", False),
        ("all(port in ports for port in (1, 2))", False),
        ("not all(row.late for row in rows)", False),
        ("lease.lost is not None or not errors", False),
        ("len(rows) >= 1", False),
    ],
)
def test_a_condition_of_nothing_is_told_from_others(condition, proves_nothing):
    assert _proves_nothing(ast.parse(condition, mode="eval").body) == proves_nothing
