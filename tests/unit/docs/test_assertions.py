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

ACCEPTED: set[str] = {
    "integration/gateway/test_hostile.py::test_a_client_that_sends_two_bytes_is_disconnected_after_the_idle_time",
    "unit/conf/test_containers.py::test_a_port_is_published_to_this_machine_alone",
    "unit/docs/test_commands_on_pages.py::test_commands_and_options_on_pages_exist",
    "unit/docs/test_links.py::test_links_have_existing_targets",
    "unit/docs/test_links.py::test_a_link_whose_text_is_a_path_has_that_target",
    "unit/jobs/audit/tables/test_preparation.py::test_other_threads_run_while_a_table_is_opened",
    "unit/jobs/cli/quotas/test_text.py::test_defaults_are_explained_only_if_a_quota_has_them",
    "unit/jobs/dashboard/test_app.py::test_the_pages_load_nothing_from_elsewhere_and_have_no_code_in_them",
    "unit/jobs/metrics/health/test_endpoint.py::test_no_endpoint_is_served_unless_the_settings_name_a_port",
    "unit/jobs/metrics/health/test_endpoint.py::test_a_job_with_once_leaves_the_port_to_running_services",
    "unit/jobs/metrics/test_queries.py::test_a_spark_that_does_not_answer_is_unhealthy_after_the_limit",
    "unit/jobs/observe/test_importing.py::test_every_request_recorded_by_clients_is_found_once_with_its_cost_and_answer",
    "unit/jobs/storage/test_lease.py::test_a_store_that_recovers_in_time_has_no_effect",
    "unit/jobs/storage/test_starting.py::test_complete_checkpoints_can_be_resumed",
    "unit/jobs/storage/test_starting.py::test_before_the_first_commit_state_may_be_missing",
    "unit/jobs/test_main.py::test_parsing_needs_neither_spark_nor_kafka_nor_arrow",
    "unit/jobs/test_store_errors.py::test_other_errors_and_other_roots_are_unchanged",
    "unit/jobs/test_store_errors.py::test_the_failure_of_another_server_is_not_attributed_to_the_store",
    "unit/quota/admission/test_identity.py::test_other_topics_belong_to_no_user",
    "unit/quota/admission/test_resolve.py::test_an_observed_mutation_is_not_carried_out_again",
    "unit/quota/kafka/quotas/test_log.py::test_a_change_lost_with_its_leader_is_not_awaited",
    "unit/quota/kafka/test_clients.py::test_pauses_grow_to_the_longest_one_and_no_two_programs_have_the_same",
    "unit/quota/observation/test_request_log.py::test_a_client_named_like_an_api_does_not_make_a_line_invalid",
    "unit/quota/observation/test_request_log.py::test_a_line_that_only_names_the_api_is_ignored",
    "unit/quota/observation/test_request_log.py::test_a_line_without_a_time_has_none",
    "unit/quota/test_records.py::test_a_name_cannot_control_an_operators_terminal",
    "unit/quota/timeline/test_warnings.py::test_an_ordinary_name_is_not_warned_of",
    "unit/quota/wire/test_described.py::test_other_bytes_are_malformed_or_some_topics",
}
"""Tests (`file::test`) that assert negatives alone. This list may only shrink."""

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FAILS = {"raises", "warns", "fail", "timeout", "wait_for", "run_state_machine_as_test"}
"""Calls that fail unless something happens."""


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
    """Return the tests of a file that assert, but negatives alone."""
    tests = [each for each in _parsed(file)[1] if each.name.startswith("test_") and _contents(each)[0]]
    return [test.name for test in tests if not _asserts(test, _helpers(file))]


def test_each_test_asserts_more_than_what_is_absent():
    files = sorted(TESTS.rglob("test_*.py"))
    found = {f"{file.relative_to(TESTS)}::{name}" for file in files for name in _tests_of_nothing(file)}
    assert len(files) > 100
    assert found == ACCEPTED, "assert what is there, too"


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
