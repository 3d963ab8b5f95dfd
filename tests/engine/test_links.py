"""Links in a folder of data: the named folder may be a link, but no link in it may lead out of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from summhay_ray import api
from summhay_ray.errors import UserError
from summhay_ray.haystack import load_sample

pytestmark = pytest.mark.core

SECRET = "canary4711 never leaves"
MEETING = {"q1": {"query": "What?", "answer": "That.", "meetings_list": ["a"]}}
STORY = {"metadata": {"passage_id": "p"}, "title": "T", "divided_document": ["A story."]}
ASKED = [{"title": "T", "question_text": "What?", "responses": [{"response_text": "That."}]}]
DOCUMENT = {"_id": "d1", "title": "", "text": "A ferry sails."}
OWN = """
from summhay_ray.benchmark import Benchmark, Item, Rows, Spec, Stage

class FolderSpec(Spec):
    folder: str

class Folder(Benchmark[FolderSpec]):
    stages = (Stage("ask"),)

    def items(self):
        for file in sorted(self.inputs.path(self.spec.folder).glob("*.*")):
            yield Item(self.inputs.text(f"{self.spec.folder}/{file.name}")[:10])

    async def answer(self, item, ask) -> Rows:
        return {}
"""


def lines(*rows: Any) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


FOLDERS: Mapping[str, Mapping[str, str]] = {
    "meetings": {"queries.json": json.dumps(MEETING), "documents/a.txt": "We met.", "documents/b.txt": "We ate."},
    "stories": {"queries.jsonl": lines(ASKED), "documents/train.jsonl": lines(STORY)},
    "texts": {"queries.jsonl": lines({"query_id": "q", "text": "What?"}), "documents/a.txt": "A.", "LICENSE": "Free."},
    "raw": {"raw/queries.json": json.dumps(MEETING), "raw/documents/a.txt": "We met."},
    "beir": {
        "corpus.jsonl": lines(DOCUMENT),
        "queries.jsonl": lines({"_id": "q1", "text": "ferry"}),
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
    },
    "documents": {"a.txt": "Ann: We met.\n\nBo: We ate.", "b.md": "Ann: We left."},
}
"""A folder of each kind that is read as a whole: file -> content."""


def imported(folder: Path) -> object:
    return api.import_collection(folder, str(folder.parent / "store"))


def odsum(folder: Path) -> object:
    return api.load({"kind": "odsum", "corpus": str(folder), "retrievers": ["bm25"]})


def beir(folder: Path) -> object:
    return api.load({"kind": "retrieval", "corpora": [str(folder)], "retrievers": ["bm25"]}).run_id


def ethic(folder: Path) -> object:
    return api.load({"kind": "ethic_build", "texts": [str(folder)]}).run_id


def own(folder: Path) -> object:
    return api.load({"kind": "folders:Folder", "folder": str(folder)}).run_id


READERS: list[tuple[str, Callable[[Path], object]]] = [
    *((name, read) for name in ("meetings", "stories", "texts", "raw", "beir") for read in (imported, odsum)),
    ("beir", beir),
    ("documents", ethic),
    ("documents", own),
]


@pytest.fixture(autouse=True)
def _own_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folders.py").write_text(OWN, encoding="ascii")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "folders", raising=False)
    monkeypatch.setenv("CANARY_KEY", SECRET)


def written(folder: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return folder


@pytest.mark.parametrize(("kind", "read"), READERS)
def test_no_file_of_a_folder_leads_out_of_it(kind: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    folder = written(tmp_path / "mine", FOLDERS[kind])
    read(folder)
    for place in sorted({place for name in FOLDERS[kind] for place in (Path(name), *Path(name).parents)} - {Path()}):
        # The content is unchanged, but the place is outside the folder.
        outside = tmp_path / f"outside-{place.name}"
        os.replace(folder / place, outside)
        targets = [outside] if outside.is_dir() else [outside, Path("/proc/self/environ"), Path("/dev/zero")]
        for target in targets:
            (folder / place).symlink_to(target)
            with pytest.raises(UserError) as refused:
                read(folder)
            assert str(folder / place) in str(refused.value) and SECRET not in str(refused.value), (place, target)
            (folder / place).unlink()
        os.replace(outside, folder / place)
    read(folder)


@pytest.mark.parametrize(("kind", "read"), READERS)
def test_what_is_named_and_what_stays_inside_may_be_links(kind: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    folder = written(tmp_path / "mine", FOLDERS[kind])
    for name in FOLDERS[kind]:
        (folder / "kept").mkdir(exist_ok=True)
        kept = folder / "kept" / name.replace("/", "-")
        os.replace(folder / name, kept)
        (folder / name).symlink_to(kept)
    (tmp_path / "link").symlink_to(folder)
    read(tmp_path / "link")


def test_a_spec_names_files_anywhere(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "specs").mkdir()
    (tmp_path / "data" / "news.json").write_text(json.dumps(load_sample("news")), encoding="utf-8")
    (tmp_path / "specs" / "here.json").symlink_to("../data/news.json")
    for name in ("../data/news.json", "here.json", str(tmp_path / "specs" / "here.json")):
        spec = tmp_path / "specs" / "spec.yaml"
        spec.write_text(f"haystacks: [{name}]\nretrievers: [bm25]\nsummarizers: [offline/lead]\n", encoding="utf-8")
        api.load(spec)
    assert api.verify(tmp_path / "specs" / "here.json")
