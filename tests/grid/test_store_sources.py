"""A spec's haystacks that lie in the store: the same run as from their files, and one clear line where they do not lie there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from big_haystacks import haystack as made_haystack
from far_files import FarFiles
from inprocess import SAMPLE, answer_all

from summhay_ray import api
from summhay_ray.grid import Grid, SpecError, in_store, load_grid, package, parse_spec
from summhay_ray.grid.opening import keep_sources
from summhay_ray.grid.sources import store_entry
from summhay_ray.store import Store, StoreError, StoreUnavailable

pytestmark = pytest.mark.core

DIGEST = "0123456789abcdef" * 4


@pytest.fixture()
def folder(tmp_path: Path) -> Path:
    """Two haystack files, written as no machine would write them."""
    for index, name in enumerate(("topic_news1.json", "other one")):
        raw = made_haystack(index, documents=4, words=30, subtopics=2, insights=2) | {"topic": f"Topic {index} \u00e9"}
        (tmp_path / name).write_text(json.dumps(raw, indent=3, ensure_ascii=False), encoding="utf-8")
    return tmp_path


def load(folder: Path, entries: list[str], store: Store | None = None, **fields: Any) -> Grid:
    return load_grid(parse_spec({**SAMPLE, **fields, "haystacks": entries}), folder, store)


def kept(folder: Path) -> tuple[Grid, Store, list[str]]:
    """The grid of the files, a store that holds their sources, and the entries that name them there."""
    grid, store = load(folder, ["topic_news1.json", "other one"]), Store(str(folder / "store-of-tests"))
    keep_sources(grid.haystacks, grid.sources, store)
    return grid, store, [store_entry(source) for source in grid.sources]


@pytest.mark.parametrize(
    ("entry", "digest"),
    [
        (f"store/{DIGEST}", DIGEST),
        (f"store/{DIGEST}/topic news.json", DIGEST),
        (f"store/{DIGEST}/", None),
        (f"store/{DIGEST}/a/b.json", None),
        (f"store/{DIGEST.upper()}", None),
        (f"store/{DIGEST[1:]}", None),
        (f"store/{DIGEST}0", None),
        (f"./store/{DIGEST}", None),
        (f"store/{DIGEST}\n", None),
    ],
)
def test_what_names_a_source_in_the_store(entry: str, digest: str | None) -> None:
    assert in_store(entry) == digest


def test_the_run_is_that_of_the_files(folder: Path) -> None:
    grid, store, entries = kept(folder)
    assert [entry.rpartition("/")[2] for entry in entries] == ["topic_news1.json", "other one.json"]
    stored = load(Path("/nowhere"), entries, store)
    assert stored.run_id == grid.run_id and list(stored.cells()) == list(grid.cells())
    # All of the outlines: names, digests of the sources, gold.
    assert stored.sources == grid.sources
    for source in grid.sources:
        assert stored.haystacks[source.haystack_id] == grid.haystacks[source.haystack_id]
    nameless = load(folder, [entry.rpartition("/")[0] for entry in entries], store)
    assert nameless.run_id == grid.run_id
    assert [source.name for source in nameless.sources] == [source.digest for source in grid.sources]


def test_tables_are_those_of_the_files(folder: Path) -> None:
    entries = kept(folder)[2]
    tables = []
    for number, names in enumerate((["topic_news1.json", "other one"], entries)):
        store = Store(str(folder / "store-of-tests" if number else folder / "plain"))
        run, _, _ = answer_all(load(folder, names, store), store)
        tables.append((run.run_id, run.digests()))
    assert tables[0] == tables[1]


def test_a_source_in_the_store_is_not_put_there_again(folder: Path) -> None:
    _, store, entries = kept(folder)
    stored = load(folder, entries, store)
    files = FarFiles(folder / "store-of-tests")
    store.files = files
    keep_sources(stored.haystacks, stored.sources, store)
    assert files.counts == {"exists": 2}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (f"store/{DIGEST}/x.json", f"^spec: haystacks: 'store/{DIGEST}/x.json': store '.*' holds no such source; run or submit"),
        ("store/news.json", "^spec: haystacks: no file 'store/news.json' in .*, or store/ and the 64 hex digits of a source"),
    ],
)
def test_what_the_store_does_not_hold(tmp_path: Path, entry: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as refused:
        load(tmp_path, [entry], Store(str(tmp_path / "empty")))
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "empty").exists()


def test_a_folder_that_is_called_store_holds_files_as_any_other(folder: Path) -> None:
    (folder / "store").mkdir()
    (folder / "topic_news1.json").rename(folder / "store" / "topic_news1.json")
    assert load(folder, ["store/topic_news1.json"]).sources[0].name == "topic_news1"


def test_without_a_store_nothing_lies_in_it(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="lies in a store; give the store, or the haystack's file"):
        load(tmp_path, [f"store/{DIGEST}"])


def test_one_source_by_two_names_is_refused(folder: Path) -> None:
    _, store, entries = kept(folder)
    with pytest.raises(SpecError, match=r"haystacks\[1\]: 'store/.*' has the same content as 'topic_news1.json'; leave one out"):
        load(folder, ["topic_news1.json", entries[0]], store)


def test_damage_and_silence_of_the_store_stay_what_they_are(folder: Path) -> None:
    grid, store, entries = kept(folder)
    damaged = store.files.where(f"objects/haystack/{grid.sources[0].digest}")
    Path(damaged).write_bytes(b"{}")
    with pytest.raises(StoreError, match="is damaged; delete it") as problem:
        load(folder, entries, store)
    assert not isinstance(problem.value, SpecError)
    files = FarFiles(folder / "store-of-tests")

    def silent(operation: str, name: str) -> None:
        raise StoreUnavailable("store x: does not answer")

    files.before, store.files = silent, files
    with pytest.raises(StoreUnavailable):
        load(folder, entries, store)


def test_the_api_opens_the_store_where_the_spec_needs_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid, store, entries = kept(folder)
    spec: Mapping[str, Any] = {**SAMPLE, "haystacks": entries}
    assert api.load(spec, store=store.uri).run_id == grid.run_id
    assert api.plan(spec, store.uri).run == grid.run_id
    checks = api.doctor(spec, store.uri)
    assert all(check.ok for check in checks if check.name in ("store", "price offline/lead"))
    monkeypatch.setenv("SUMMHAY_STORE", store.uri)
    assert api.load(spec).run_id == grid.run_id
    opened: list[str] = []
    monkeypatch.setattr(api, "Store", opened.append)
    api.load({**SAMPLE, "haystacks": ["sample/news"]}, store="s3://no/where")
    assert opened == []


def test_what_lies_in_the_store_needs_no_file_of_the_package(folder: Path) -> None:
    grid, store, entries = kept(folder)
    mixed = load(folder, ["sample/conversation", "other one", entries[0]], store)
    assert package.by_store(mixed) == {"other one": entries[1]}
    found = package.pack(mixed, folder, package.by_store(mixed))
    assert (found.files, found.spec["haystacks"]) == ({}, ["sample/conversation", entries[1], entries[0]])
    near = package.pack(mixed, folder)
    assert (list(near.files), near.spec["haystacks"]) == (["other one"], ["sample/conversation", "other one", entries[0]])
    there = load(Path("/nowhere"), ["sample/conversation", entries[1], entries[0]], store)
    assert there.run_id == mixed.run_id and there.sources == mixed.sources
