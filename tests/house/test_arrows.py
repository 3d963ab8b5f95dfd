"""Imports point one way, and rooms are entered by their door (DESIGN: the house)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.core

PACKAGE = Path(__file__).resolve().parents[2] / "summhay_ray"
LEVELS = [
    {"problems", "texts"},
    {"records", "outcome", "plugins"},
    {"score", "store"},
    {"llm"},
    {"haystack", "retrieve", "summarize", "judge"},
    {"benchmarks", "synth"},
    {"grid"},
    {"report"},
    {"api"},
    {"cli"},
]
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}


def imports(file: Path) -> list[tuple[int, str]]:
    """(line, dotted name) of every import of ours in a file, functions' own imports included."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module == "summhay_ray":
                found += [(node.lineno, f"summhay_ray.{alias.name}") for alias in node.names]
            else:
                found.append((node.lineno, node.module))
        elif isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.append((node.lineno, "relative"))
    return [(line, name) for line, name in found if name.startswith("summhay_ray") or name == "relative"]


def room_of(file: Path) -> str:
    relative = file.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def problems_of(file: Path) -> list[str]:
    here = room_of(file)
    if here == "__init__":
        return []
    found = []
    for line, name in imports(file):
        where = f"{file.relative_to(PACKAGE.parent)}:{line}"
        if name == "relative":
            found.append(f"{where}: a relative import; name the room")
            continue
        parts = name.split(".")[1:]
        if not parts or parts[0] == here:
            continue
        there = parts[0]
        if LEVEL[there] >= LEVEL[here]:
            found.append(f"{where}: {here} imports {there}, which stands beside or above it")
        if len(parts) > 1 and (PACKAGE / there).is_dir():
            found.append(f"{where}: {name} is past the door; import from summhay_ray.{there}")
    return found


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_point_one_way_and_through_doors(file: Path) -> None:
    assert problems_of(file) == []


HEAVY = {
    "ray": "grid",
    "litellm": "llm",
    "tiktoken": "llm",
    "boto3": "store",
    "pyarrow": "store",
    "nltk": "retrieve",
    "rank_bm25": "retrieve",
    "typer": "cli",
}


def strangers(file: Path) -> list[str]:
    """Imports of a heavy library outside its one room."""
    here, found = room_of(file), []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        found += [f"{here}: {name}" for name in names if HEAVY.get(name.split(".")[0], here) != here]
    return found


def test_each_heavy_library_is_known_to_one_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [found for file in sorted(PACKAGE.rglob("*.py")) for found in strangers(file)] == []
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "grid").mkdir()
    sneaky = tmp_path / "grid" / "sneaky.py"
    sneaky.write_text("def f():\n    import litellm.utils\n    from ray import data\n", encoding="utf-8")
    assert strangers(sneaky) == ["grid: litellm.utils"]


def test_every_room_has_a_level() -> None:
    rooms = {entry.stem for entry in PACKAGE.iterdir() if entry.suffix == ".py" or (entry / "__init__.py").exists()}
    assert rooms - {"__init__"} <= set(LEVEL)


@pytest.mark.parametrize("room", sorted(entry.name for entry in PACKAGE.iterdir() if (entry / "__init__.py").exists()))
def test_doors_list_what_they_offer_in_order(room: str) -> None:
    tree = ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8"))
    lists = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
    ]
    assert len(lists) == 1
    constants = [name for name in lists[0] if name.isupper()]
    classes = [name for name in lists[0] if name[0].isupper() and not name.isupper()]
    functions = [name for name in lists[0] if name[0].islower()]
    assert lists[0] == sorted(constants) + sorted(classes) + sorted(functions)


def test_the_checker_sees_a_wrong_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "score").mkdir()
    (tmp_path / "llm").mkdir()
    wrong = tmp_path / "score" / "wrong.py"
    wrong.write_text("def f():\n    from summhay_ray.llm.gateway import Gateway\n", encoding="utf-8")
    found = problems_of(wrong)
    assert len(found) == 2 and "stands beside or above" in found[0] and "past the door" in found[1]
