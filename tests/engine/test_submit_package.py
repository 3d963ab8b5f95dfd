"""The contents of a job's package: the spec, its files, the user's own modules, and never a key."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from summhay_ray import api
from summhay_ray.engine import Workload, package
from summhay_ray.haystack import load_sample

pytestmark = pytest.mark.core

KEY = "sk-canary4711never0leaves"
SPEC: Mapping[str, Any] = {"haystacks": ["sample/news"], "retrievers": ["keywords"], "summarizers": ["offline/lead"]}
PROMPT = "[ARTICLES] say what about [QUERY]? [N_insights] bullets.\n"


def load(folder: Path, **fields: Any) -> Workload[Any]:
    """The workload of a spec in a folder."""
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump({**SPEC, **fields}), encoding="utf-8")
    return api.load(path)


def packed(folder: Path, out: Path, **fields: Any) -> dict[str, Any]:
    """Write the package, and return its spec."""
    out.mkdir()
    package.pack(load(folder, **fields)).write(out)
    spec: dict[str, Any] = yaml.safe_load((out / package.SPEC).read_text(encoding="utf-8"))
    return spec


@pytest.fixture()
def folder(tmp_path: Path) -> Path:
    """A spec's folder with two haystacks of the same file name, and a prompt in the parent folder."""
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
    there = api.load(package.SPEC)
    assert there.run_id == here.run_id
    assert list(there.items()) == list(here.items())


def test_one_file_is_packed_once(folder: Path, tmp_path: Path) -> None:
    judge = {"model": "offline/judge", "name": "a", "prompt": "p.txt"}
    (folder / "p.txt").write_text("Reference Insight:\n[[INSIGHT]]\nBullet Points:\n[[BULLETS]]\n", encoding="utf-8")
    written = packed(folder, tmp_path / "out", judges=[judge, judge | {"name": "b"}])
    assert [one["prompt"] for one in written["judges"]] == ["p.txt", "p.txt"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(["p.txt", package.SPEC])


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
    """The user's own modules in the current folder."""
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


OWN_KIND = """
from summhay_ray.benchmark import Benchmark, Item, Spec

class MySpec(Spec):
    questions: str

class Mine(Benchmark[MySpec]):
    kind = "mine"

    def __init__(self, spec, inputs):
        super().__init__(spec, inputs)
        self.questions = inputs.text(spec.questions)

    def items(self):
        yield Item("one")

    async def answer(self, item, ask):
        return {}
"""


def test_a_benchmark_of_one_s_own_comes_with_its_file_and_its_inputs(own: Path, tmp_path: Path) -> None:
    (own / "own_module.py").write_text(OWN_KIND, encoding="utf-8")
    (tmp_path / "questions.txt").write_text("Who?\n", encoding="utf-8")
    spec = own / "mine.yaml"
    spec.write_text(yaml.safe_dump({"kind": "own_module:Mine", "questions": "../questions.txt"}), encoding="utf-8")
    found = package.pack(api.load(spec))
    assert sorted(found.files) == ["files/0/questions.txt", "own_module.py"]
    assert (found.spec["kind"], found.spec["questions"]) == ("own_module:Mine", "files/0/questions.txt")


def test_modules_that_are_installed_stay(folder: Path) -> None:
    files, notes = package.own_modules(["yaml:safe_load", "json:loads"])
    assert files == {}
    assert [note.partition(" and not")[0] for note in notes] == ["module json is installed here", "module yaml is installed here"]


def test_no_file_with_a_key_in_it_leaves(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = load(own, retrievers=["own_module:Own"])
    (own / "helper_of_mine.py").write_text(f"WORD = '{KEY}'\n", encoding="utf-8")
    package.pack(mine)
    monkeypatch.setenv("MY_API_KEY", KEY)
    with pytest.raises(package.UserError, match=r"^helper_of_mine\.py holds the value of a key") as refused:
        package.pack(mine)
    assert KEY not in str(refused.value)
    with pytest.raises(package.UserError, match=r"^the spec holds the value of a key"):
        package.pack(load(own, name=f"with {KEY}"))


def test_a_key_in_a_file_is_known_too(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(KEY + "\n", encoding="ascii")
    monkeypatch.setenv("MY_API_KEY_FILE", str(tmp_path / "key"))
    (folder / "p.txt").write_text(PROMPT + KEY, encoding="utf-8")
    with pytest.raises(package.UserError, match=r"^news\.json holds"):
        (folder / "news.json").write_text(json.dumps(load_sample("news") | {"note": KEY}), encoding="utf-8")
        # It would leave through the store, too.
        package.pack(load(folder, haystacks=["news.json"]), {"news.json": "store/" + "0" * 64})
    with pytest.raises(package.UserError, match=r"^p\.txt holds"):
        package.pack(load(folder, summarizers=[{"model": "offline/lead", "prompt": "p.txt"}]))


def test_too_much_is_refused_in_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = (folder / "news.json").stat().st_size
    monkeypatch.setattr(package, "MOST_BYTES", size)
    package.pack(load(folder, haystacks=["news.json"]))
    monkeypatch.setattr(package, "MOST_BYTES", size - 1)
    with pytest.raises(package.UserError, match=r"^the job's 1 files have \d+ MiB, of which news\.json has") as refused:
        package.pack(load(folder, haystacks=["news.json"]))
    assert "\n" not in str(refused.value)


def test_a_module_and_a_file_of_one_name_are_refused(own: Path, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "own_module.py").write_text(PROMPT, encoding="utf-8")
    (own / "specs").mkdir()
    writer = {"model": "offline/lead", "prompt": "own_module.py"}
    mine = load(tmp_path / "far", retrievers=["own_module:Own"], summarizers=[writer])
    with pytest.raises(package.UserError, match="have one name"):
        package.pack(mine)
