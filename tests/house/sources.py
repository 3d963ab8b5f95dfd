"""The package's files and their syntax trees, each parsed once for all checks."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "summhay_ray"


@functools.cache
def text_of(file: Path) -> str:
    """The source of a file."""
    return file.read_text(encoding="utf-8")


@functools.cache
def tree_of(file: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(text_of(file))


@functools.cache
def nodes_of(file: Path) -> tuple[list[ast.Import | ast.ImportFrom], list[ast.Call]]:
    """The imports and the calls of a file, including those inside functions."""
    imports: list[ast.Import | ast.ImportFrom] = []
    calls: list[ast.Call] = []
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(node)
        elif isinstance(node, ast.Call):
            calls.append(node)
    return imports, calls
