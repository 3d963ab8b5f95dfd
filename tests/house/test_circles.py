"""No circular imports between files, including imports inside functions and for type checkers; and each name has one meaning."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sources import PACKAGE, nodes_of, text_of

pytestmark = pytest.mark.core


def neighbours(package: Path) -> dict[str, set[str]]:
    """File of a package, including `__init__` files -> the files that it imports, including imports inside functions or only for
    types."""
    files = {_dotted(package, file): file for file in sorted(package.rglob("*.py"))}
    # The package's `__init__` names the types of the objects that it loads on demand.
    del files[package.name]
    found: dict[str, set[str]] = {}
    for name, file in files.items():
        taken = [node for node in nodes_of(file)[0] if isinstance(node, ast.ImportFrom)]
        names = [(node.module or "", alias.name) for node in taken for alias in node.names]
        found[name] = {f"{module}.{one}" if f"{module}.{one}" in files else module for module, one in names} & files.keys()
    return found


def _dotted(package: Path, file: Path) -> str:
    return ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")


def circle(imports: Mapping[str, set[str]]) -> list[str]:
    """The files in circles, and the files that import them. Files without remaining imports are removed until none is left."""
    left = dict(imports)
    while ends := [name for name, others in left.items() if not others & left.keys()]:
        for name in ends:
            del left[name]
    # A file that no other file imports cannot be in a circle.
    while starts := [name for name in left if not any(name in others for others in left.values())]:
        for name in starts:
            del left[name]
    return sorted(left)


def test_files_import_each_other_one_way() -> None:
    imports = neighbours(PACKAGE)
    rooms = [entry.parent for entry in PACKAGE.glob("*/__init__.py")]
    seen = {
        name.split(".")[1]
        for name, others in imports.items()
        if any(other.split(".")[1] == name.split(".")[1] for other in others)
    }
    assert {room.name for room in rooms} <= seen, "imports within every room are seen"
    assert circle(imports) == []


def test_a_circle_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "ours"
    (package / "room" / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("from ours.room.above import g\n", encoding="utf-8")
    imports = {"one": "two import g", "two": "inner import three", "inner/three": "one import g", "above": "one import g"}
    for name, taken in imports.items():
        module, _, what = taken.partition(" import ")
        text = f"def f():\n    from ours.room.{module} import {what}\n"
        (package / "room" / f"{name}.py").write_text(text, encoding="utf-8")
    assert circle(neighbours(package)) == ["ours.room.inner.three", "ours.room.one", "ours.room.two"]


def test_a_type_makes_a_circle(tmp_path: Path) -> None:
    room = tmp_path / "ours" / "room"
    room.mkdir(parents=True)
    (tmp_path / "ours" / "__init__.py").touch()
    (room / "one.py").write_text("if TYPE_CHECKING:\n    from ours.room.two import f\n", encoding="utf-8")
    (room / "two.py").write_text("from ours.room.one import g\n", encoding="utf-8")
    assert circle(neighbours(tmp_path / "ours")) == ["ours.room.one", "ours.room.two"]


def test_a_file_that_enters_by_the_door_of_its_own_room_is_a_circle(tmp_path: Path) -> None:
    room = tmp_path / "ours" / "room"
    room.mkdir(parents=True)
    (tmp_path / "ours" / "__init__.py").touch()
    (room / "__init__.py").write_text("from ours.room.inside import f\n", encoding="utf-8")
    (room / "inside.py").write_text("from ours.room import g\n", encoding="utf-8")
    assert circle(neighbours(tmp_path / "ours")) == ["ours.room", "ours.room.inside"]


def test_dollars_are_defined_in_one_place() -> None:
    files = [file for file in PACKAGE.rglob("*.py") if "\nMICROS = " in text_of(file)]
    assert [str(file.relative_to(PACKAGE)) for file in files] == ["outcome.py"]


TWICE = {
    # A strategy's prompt and its parts, for summarizers and for judges.
    *{"Task", "check_prompt", "prompt_identity"},
    # The question of a benchmark's item, and of the gateway.
    "Ask",
}


def test_a_name_is_one_thing_at_every_door() -> None:
    """Packages may share a function name for the same task (`TWICE`); otherwise each name is unique. A function of the API has
    the name of the function that it calls."""
    doors = [file.parent for file in PACKAGE.rglob("__init__.py") if file.parent not in (PACKAGE, PACKAGE / "api")]
    places: dict[str, list[Any]] = {}
    for folder in doors:
        door = importlib.import_module(".".join(folder.relative_to(PACKAGE.parent).parts))
        for name in getattr(door, "__all__", ()):
            places.setdefault(name, []).append(getattr(door, name))
    # Equal types count as one, because earlier tests decide whether two equal literals are the same object.
    assert {name for name, things in places.items() if any(thing != things[0] for thing in things)} == TWICE
