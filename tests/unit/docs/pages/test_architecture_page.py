"""docs/explanation/architecture.md and CONTRIBUTING.md agree with the existing packages, files and functions."""

import ast
import re

import pytest

from tests.support.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs/explanation/architecture.md").read_text()
CONTRIBUTING = (CHECKOUT / "CONTRIBUTING.md").read_text()
FILES = set(re.findall(r"`((?:quota|jobs|schemas|tests|conf)/[\w/.-]+?\.\w+)(?:`|:)", PAGE + CONTRIBUTING))
FUNCTIONS = sorted(set(re.findall(r"`((?:quota|jobs|schemas)/[\w/]+\.py):([\w.]+)`", PAGE)))
FOLDERS = {path.parent for half in ("quota", "jobs", "schemas") for path in (CHECKOUT / half).rglob("__init__.py")}

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def defined(path):
    """The classes and functions of a file, with the methods of its classes."""
    for node in ast.parse((CHECKOUT / path).read_text()).body:
        if isinstance(node, ast.ClassDef | _FUNCTIONS):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{each.name}" for each in node.body if isinstance(each, _FUNCTIONS))


@pytest.mark.parametrize("path", sorted(FILES))
def test_files_on_the_pages_exist(path):
    assert (CHECKOUT / path).exists()


@pytest.mark.parametrize(("path", "name"), FUNCTIONS)
def test_functions_on_the_page_exist(path, name):
    assert name in set(defined(path))


def test_the_page_has_a_row_for_each_package():
    """The two halves themselves have a paragraph."""
    rows = set(re.findall(r"^\| `([\w/]+)/` \|", PAGE, re.MULTILINE))
    packages = {str(folder.relative_to(CHECKOUT)) for folder in FOLDERS} - {"quota", "jobs"}
    assert rows == packages
