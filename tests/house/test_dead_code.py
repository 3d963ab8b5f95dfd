"""There is no dead code. Unused names are removed, unless outside code uses them (`vulture_contracts.py`)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from sources import PACKAGE, text_of, tree_of
from vulture import Vulture

pytestmark = pytest.mark.core

CONTRACTS = Path(__file__).with_name("vulture_contracts.py")
SURE = 60
"""vulture's confidence for names that no file uses; findings with more confidence (unreachable code, unused arguments) count,
too."""


def unused(package: Path) -> dict[str, str]:
    """Map each name that the package does not use to its definition. An export in an `__init__` does not count as a use."""
    found = Vulture()
    for file in sorted(package.rglob("*.py")):
        found.scan(re.sub(r"^__all__ = [\[(].*?[\])]$", "", text_of(file), flags=re.MULTILINE | re.DOTALL), filename=file)
    dead = (one for one in found.get_unused_code(SURE) if one.typ != "import")
    return {one.name: f"{one.filename}: {one.message}" for one in dead if not has_name(Path(one.filename), one.name)}


def has_name(file: Path, class_name: str) -> bool:
    """True for a class with its own `name: ClassVar[str]`: `plugins` finds it by this name."""
    classes = (node for node in tree_of(file).body if isinstance(node, ast.ClassDef) and node.name == class_name)
    return any(ast.unparse(part).startswith("name: ClassVar[str] = ") for one in classes for part in one.body)


def test_what_nothing_uses_is_a_contract() -> None:
    lines = tree_of(CONTRACTS).body
    contracts = [node.value.id for node in lines if isinstance(node, ast.Expr) and isinstance(node.value, ast.Name)]
    found = unused(PACKAGE)
    assert [told for name, told in found.items() if name not in contracts] == [], f"take it out, or name it in {CONTRACTS.name}"
    assert [name for name in contracts if name not in found] == [], "used by now, or gone: take it out of the contracts"
    assert len(contracts) == len(set(contracts))


def test_dead_code_is_seen(tmp_path: Path) -> None:
    (tmp_path / "room.py").write_text("def used():\n    return 1\n\n\ndef dead():\n    return used()\n", encoding="utf-8")
    assert list(unused(tmp_path)) == ["dead"]
    (tmp_path / "__init__.py").write_text("from room import dead\n\n__all__ = ['dead']\n", encoding="utf-8")
    assert list(unused(tmp_path)) == ["dead"], "a door that nobody enters"
    (tmp_path / "other.py").write_text("from room import dead\n\nprint(dead())\n", encoding="utf-8")
    assert list(unused(tmp_path)) == []
