"""Tests of a source file are found by its name: `tests/unit/a/test_b.py` tests the file or the package `a/b`.

Those of the tests' own code are found likewise: `tests/unit/support/test_b.py` tests `tests/support/b.py`.
"""

from pathlib import Path

from tests.support.checkout import CHECKOUT

UNIT = CHECKOUT / "tests" / "unit"

ELSEWHERE = {
    "tests/unit/jobs/test_malformed.py",
}
"""Tests that belong to no single file. This list may only shrink."""


def _is_source(path: Path) -> bool:
    """Return whether a file, or a folder with a file of the project, is there."""
    return path.is_file() or any(file.parent.name != "__pycache__" for file in path.rglob("*.*"))


def _sources(test: Path) -> set[Path]:
    """Return what a file of tests may be the mirror of."""
    folder = test.parent.relative_to(UNIT)
    if folder.parts[:1] in {("evidence",), ("support",)}:
        folder = Path("tests") / folder
    name = test.stem.removeprefix("test_")
    return {CHECKOUT / folder / file for file in (f"{name}.py", name, f"__{name}__.py")}


def test_a_file_of_tests_has_the_place_and_the_name_of_a_source_file():
    tests = {test for test in UNIT.rglob("test_*.py") if "docs" not in test.relative_to(UNIT).parts[:1]}
    astray = {str(test.relative_to(CHECKOUT)) for test in tests if not any(map(_is_source, _sources(test)))}
    assert len(tests) > 150
    assert astray == ELSEWHERE
