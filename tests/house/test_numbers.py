"""The house numbers: how long files and functions may be, and how much is tested (STYLE)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.core

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "summhay_ray").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def functions(file: Path) -> Iterator[tuple[str, int, int]]:
    """(place, lines, parameters) of every function of a file."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            n_lines = (node.end_lineno or node.lineno) - node.lineno + 1
            arguments = [argument.arg for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]]
            n_parameters = len([name for name in arguments if name not in ("self", "cls")])
            yield f"{file.relative_to(ROOT)}:{node.lineno} {node.name}", n_lines, n_parameters


def p90(values: list[int]) -> int:
    return sorted(values)[int(0.9 * (len(values) - 1))]


def test_files_are_short() -> None:
    assert [str(file) for file in [*SOURCES, *TESTS] if lines(file) > 400] == []
    assert p90([lines(file) for file in SOURCES]) <= 300


def test_functions_are_short_and_take_few_parameters() -> None:
    found = [one for file in SOURCES for one in functions(file)]
    assert [place for place, n_lines, _ in found if n_lines > 60] == []
    assert p90([n_lines for _, n_lines, _ in found]) <= 35
    # A command of the command line has a parameter for each of its options.
    limited = [one for one in found if not one[0].startswith("summhay_ray/cli/")]
    assert [place for place, _, n_parameters in limited if n_parameters > 6] == []


def test_contracts_fit_on_a_page() -> None:
    bases = [file for file in SOURCES if file.name == "base.py"]
    assert len(bases) >= 3
    assert [str(file) for file in bases if lines(file) > 60] == []


def test_tests_weigh_as_much_as_the_source() -> None:
    # What measures, serves and kills for the tests is no test.
    testing = [file for file in TESTS if file.name.startswith(("test_", "conftest"))]
    ratio = sum(map(lines, testing)) / sum(map(lines, SOURCES))
    assert 0.8 <= ratio <= 1.2


def test_the_readme_is_short() -> None:
    assert lines(ROOT / "README.md") <= 150
