"""No file of a room imports another one that imports it, not in a function either; one thing has one name."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.core

PACKAGE = Path(__file__).resolve().parents[2] / "summhay_ray"
ROOMS = ("cli", "grid", "report", "store", "synth")


def neighbours(room: Path) -> dict[str, set[str]]:
    """File of a room -> the files of that room that it imports."""
    names = {file.stem for file in room.glob("*.py")} - {"__init__"}
    found: dict[str, set[str]] = {}
    for name in sorted(names):
        tree = ast.parse((room / f"{name}.py").read_text(encoding="utf-8"))
        modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        found[name] = {module.rpartition(".")[2] for module in modules if module.split(".")[-2:-1] == [room.name]} & names
    return found


def circle(imports: Mapping[str, set[str]]) -> list[str]:
    """The files that are left where none is left that imports nothing of the others: those of circles, and who imports them."""
    left = dict(imports)
    while ends := [name for name, others in left.items() if not others & left.keys()]:
        for name in ends:
            del left[name]
    # Nor is one in a circle that nobody imports.
    while starts := [name for name in left if not any(name in others for others in left.values())]:
        for name in starts:
            del left[name]
    return sorted(left)


@pytest.mark.parametrize("room", ROOMS)
def test_files_of_a_room_import_each_other_one_way(room: str) -> None:
    imports = neighbours(PACKAGE / room)
    assert any(imports.values()), "the room's imports are seen"
    assert circle(imports) == []


def test_a_circle_is_seen(tmp_path: Path) -> None:
    room = tmp_path / "grid"
    room.mkdir()
    for name, other in (("one", "two"), ("two", "three"), ("three", "one"), ("above", "one"), ("below", "")):
        text = f"def f():\n    from summhay_ray.grid.{other} import g\n" if other else ""
        (room / f"{name}.py").write_text(text, encoding="utf-8")
    assert circle(neighbours(room)) == ["one", "three", "two"]


def test_what_a_dollar_is_stands_in_one_place() -> None:
    files = [file for file in PACKAGE.rglob("*.py") if "\nMICROS = " in file.read_text(encoding="utf-8")]
    assert [str(file.relative_to(PACKAGE)) for file in files] == ["records.py"]


def test_tables_and_figures_have_names_of_their_own() -> None:
    doors = {room: importlib.import_module(f"summhay_ray.{room}") for room in ("grid", "report", "synth")}
    places: dict[str, set[int]] = {}
    for door in doors.values():
        for name in filter(str.islower, door.__all__):
            places.setdefault(name, set()).add(id(getattr(door, name)))
    assert [name for name, things in places.items() if len(things) > 1] == []
