"""The command lines in docstrings work in the repository: their scripts exist, and no path leads out of it."""

from __future__ import annotations

import ast
import re

import pytest
from sources import ROOT, tree_of

pytestmark = pytest.mark.core

FOLDERS = ("summhay_ray", "tests", "tools", "cluster", "jobs")
LINES = {
    f"{file.relative_to(ROOT)}: {line.strip()}": line.split()
    for folder in FOLDERS
    for file in sorted((ROOT / folder).rglob("*.py"))
    for line in (ast.get_docstring(tree_of(file)) or "").splitlines()
    if re.match(r"\s+(?:[A-Z_]+=\S+\s+)*(?:python|summhay)\s", line)
}


def test_scripts_are_where_their_docstrings_say() -> None:
    assert len(LINES) > 10
    named = {told: word for told, words in LINES.items() for word in words if word.endswith(".py")}
    assert [told for told, word in named.items() if not (ROOT / word).is_file()] == []


def test_no_command_leads_out_of_the_repository() -> None:
    assert [told for told, words in LINES.items() if any(word.startswith(("/", "../", "~")) for word in words)] == []
