"""What goes with a job: the spec, its files, a person's own modules, and never a key."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from summhay_ray.grid import Grid, load_grid, package, parse_spec, read_spec
from summhay_ray.haystack import load_sample

pytestmark = pytest.mark.core

KEY = "sk-canary4711never0leaves"
SPEC: Mapping[str, Any] = {"haystacks": ["sample/news"], "retrievers": ["keywords"], "summarizers": ["offline/lead"]}
PROMPT = "[ARTICLES] say what about [QUERY]? [N_insights] bullets.\n"


def load(folder: Path, **fields: Any) -> Grid:
    return load_grid(parse_spec({**SPEC, **fields}), folder)


def packed(folder: Path, out: Path, **fields: Any) -> dict[str, Any]:
    """The package written; gives its spec."""
    out.mkdir()
    package.pack(load(folder, **fields), folder).write(out)
    spec: dict[str, Any] = yaml.safe_load((out / package.SPEC).read_text(encoding="utf-8"))
    return spec


@pytest.fixture()
def folder(tmp_path: Path) -> Path:
    """A spec's folder with two haystacks of one file name, and a prompt beside it."""
    here = tmp_path / "specs"
    (here / "old").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    for index, place in enumerate((here / "old", tmp_path / "elsewhere", here)):
        raw = load_sample("news") | {"topic": f"Topic {index}"}
        (place / "news.json").write_text(json.dumps(raw), encoding="utf-8")
    (tmp_path / "prompt.txt").write_text(PROMPT, encoding="utf-8")
    return here


def test_the_package_makes_the_same_run_anywhere(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {
        "haystacks": ["sample/conversation", "old/news.json", "../elsewhere/news.json", str(folder / "news.json")],
        "summarizers": [{"model": "offline/lead", "prompt": "../prompt.txt"}],
        "budget_usd": 2.5,
    }
    here = load(folder, **fields)
    written = packed(folder, tmp_path / "out", **fields)
    assert written["haystacks"] == ["sample/conversation", "old/news.json", "files/0/news.json", "files/1/news.json"]
    assert written["summarizers"][0]["prompt"] == "files/0/prompt.txt"
    assert written["budget_usd"] == 2.5
    monkeypatch.chdir(tmp_path / "out")
    there = load_grid(*read_spec(package.SPEC))
    assert there.run_id == here.run_id
    assert [cell.cell_id for cell in there.cells()] == [cell.cell_id for cell in here.cells()]
    assert [source.name for source in there.sources] == [source.name for source in here.sources]


def test_one_file_is_packed_once(folder: Path, tmp_path: Path) -> None:
    judge = {"model": "offline/judge", "name": "a", "prompt": "p.txt"}
    (folder / "p.txt").write_text("Reference Insight:\n[[INSIGHT]]\nBullet Points:\n[[BULLETS]]\n", encoding="utf-8")
    written = packed(folder, tmp_path / "out", judges=[judge, judge | {"name": "b"}])
    assert [one["prompt"] for one in written["judges"]] == ["p.txt", "p.txt"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(["p.txt", package.SPEC])


def test_haystacks_that_lie_in_the_store_need_no_file(folder: Path) -> None:
    grid = load(folder, haystacks=["news.json"])
    found = package.pack(grid, folder, kept={"news.json": "store/" + "0" * 64})
    assert (found.files, found.spec["haystacks"]) == ({}, ["store/" + "0" * 64])


MODULE = """
from helper_of_mine import WORD
from tools_of_mine.deep import DEEP

class Own:
    name, whole = "own", False
    def __init__(self, argument="", seed=0): pass
    def rank(self, subtopic, haystack): return []
"""


@pytest.fixture()
def own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Modules of a person's own in the folder where they stand."""
    tools = folder / "tools_of_mine"
    (tools / "data").mkdir(parents=True)
    (tools / ".cache").mkdir()
    files = {"__init__.py": "", "deep.py": "DEEP = 1\n", "data/words.txt": "toll\n", ".cache/old.txt": KEY, ".env": KEY}
    for name, text in files.items():
        (tools / name).write_text(text, encoding="utf-8")
    (folder / "own_module.py").write_text(MODULE, encoding="utf-8")
    (folder / "helper_of_mine.py").write_text("WORD = 'toll'\n", encoding="utf-8")
    (folder / "never_imported.py").write_text("raise SystemExit\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    for name in ("own_module", "helper_of_mine", "tools_of_mine", "tools_of_mine.deep"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def test_own_modules_come_with_what_they_import(own: Path, tmp_path: Path) -> None:
    packed(own, tmp_path / "out", retrievers=["own_module:Own"])
    found = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    tools = {"tools_of_mine/__init__.py", "tools_of_mine/deep.py", "tools_of_mine/data/words.txt"}
    assert found == {package.SPEC, "own_module.py", "helper_of_mine.py", *tools}


def test_modules_that_are_installed_stay(folder: Path) -> None:
    spec = parse_spec({**SPEC, "orderings": ["yaml:safe_load"]})
    import json.decoder  # noqa: F401

    assert package.own_modules(spec)[0] == {}
    assert "module yaml is installed here and not sent" in package.own_modules(spec)[1][0]
    assert "module json is installed" in package.own_modules(parse_spec({**SPEC, "orderings": ["json:loads"]}))[1][0]


def test_no_file_with_a_key_in_it_leaves(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = load(own, retrievers=["own_module:Own"])
    (own / "helper_of_mine.py").write_text(f"WORD = '{KEY}'\n", encoding="utf-8")
    package.pack(grid, own)
    monkeypatch.setenv("MY_API_KEY", KEY)
    with pytest.raises(package.PackageError, match=r"^helper_of_mine\.py holds the value of a key") as refused:
        package.pack(grid, own)
    assert KEY not in str(refused.value)
    with pytest.raises(package.PackageError, match=r"^the spec holds the value of a key"):
        package.pack(load(own, name=f"with {KEY}"), own)


def test_a_key_in_a_file_is_known_too(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(KEY + "\n", encoding="ascii")
    monkeypatch.setenv("MY_API_KEY_FILE", str(tmp_path / "key"))
    (folder / "p.txt").write_text(PROMPT + KEY, encoding="utf-8")
    with pytest.raises(package.PackageError, match=r"^news\.json holds"):
        (folder / "news.json").write_text(json.dumps(load_sample("news") | {"note": KEY}), encoding="utf-8")
        # By way of the store it would leave, too.
        package.pack(load(folder, haystacks=["news.json"]), folder, {"news.json": "store/" + "0" * 64})
    with pytest.raises(package.PackageError, match=r"^p\.txt holds"):
        package.pack(load(folder, summarizers=[{"model": "offline/lead", "prompt": "p.txt"}]), folder)


def test_too_much_is_refused_in_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = (folder / "news.json").stat().st_size
    monkeypatch.setattr(package, "MOST_BYTES", size)
    package.pack(load(folder, haystacks=["news.json"]), folder)
    monkeypatch.setattr(package, "MOST_BYTES", size - 1)
    with pytest.raises(package.PackageError, match=r"^the job's 1 files have \d+ MiB, of which news\.json has") as refused:
        package.pack(load(folder, haystacks=["news.json"]), folder)
    assert "\n" not in str(refused.value)


def test_a_module_and_a_file_of_one_name_are_refused(own: Path, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "own_module.py").write_text(PROMPT, encoding="utf-8")
    (own / "specs").mkdir()
    grid = load(
        tmp_path / "far", retrievers=["own_module:Own"], summarizers=[{"model": "offline/lead", "prompt": "own_module.py"}]
    )
    with pytest.raises(package.PackageError, match="have one name; rename one"):
        package.pack(grid, tmp_path / "far")
