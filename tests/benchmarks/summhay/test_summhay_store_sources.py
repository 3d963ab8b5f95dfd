"""A spec's haystacks in the store: the same run as from their files, and one clear line if they are not in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from big_haystacks import haystack as made_haystack
from far_files import FarFiles
from inline_runs import SAMPLE, answered
from summhay_grids import grid_of

from summhay_ray import api
from summhay_ray.benchmarks.summhay import SummHay
from summhay_ray.benchmarks.summhay.haystacks.sources import stored_digest
from summhay_ray.engine import SpecError, package
from summhay_ray.store import Store, StoreError
from summhay_ray.store.names import StoreUnavailable

pytestmark = pytest.mark.core

DIGEST = "0123456789abcdef" * 4


@pytest.fixture()
def folder(tmp_path: Path) -> Path:
    """Two haystack files, formatted by hand."""
    for index, name in enumerate(("topic_news1.json", "other one")):
        raw = made_haystack(index, documents=4, words=30, subtopics=2, insights=2) | {"topic": f"Topic {index} \u00e9"}
        (tmp_path / name).write_text(json.dumps(raw, indent=3, ensure_ascii=False), encoding="utf-8")
    return tmp_path


def load(folder: Path | None, entries: list[str], store: Store | None = None) -> SummHay:
    return grid_of(folder, store, haystacks=entries)


def kept(folder: Path) -> tuple[SummHay, Store, list[str]]:
    """The grid of the files, a store that has their sources, and the entries that name the sources there."""
    grid, store = load(folder, ["topic_news1.json", "other one"]), Store(str(folder / "store-of-tests"))
    grid.keep_by_store(store)
    return grid, store, [f"store/{source.digest}/{source.name}.json" for source in grid.grid.haystacks.metadata]


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
    assert stored_digest(entry) == digest


def test_the_run_is_that_of_the_files(folder: Path) -> None:
    grid, store, entries = kept(folder)
    assert [entry.rpartition("/")[2] for entry in entries] == ["topic_news1.json", "other one.json"]
    stored = load(None, entries, store)
    assert stored.run_id == grid.run_id and list(stored.items()) == list(grid.items())
    # All of the metadata: names, digests of the sources, gold.
    assert stored.grid.haystacks.metadata == grid.grid.haystacks.metadata
    for source in grid.grid.haystacks.metadata:
        assert stored.grid.haystacks[source.haystack_id] == grid.grid.haystacks[source.haystack_id]
    nameless = load(folder, [entry.rpartition("/")[0] for entry in entries], store)
    assert nameless.run_id == grid.run_id
    assert [source.name for source in nameless.grid.haystacks.metadata] == [
        source.digest for source in grid.grid.haystacks.metadata
    ]


def test_tables_are_those_of_the_files(folder: Path) -> None:
    entries = kept(folder)[2]
    tables = []
    files = [str(folder / name) for name in ("topic_news1.json", "other one")]
    for store, names in ((folder / "plain", files), (folder / "store-of-tests", entries)):
        result, run = answered(store, haystacks=names)
        tables.append((result.run, run.digests()))
    assert tables[0] == tables[1]


def test_a_source_in_the_store_is_not_put_there_again(folder: Path) -> None:
    _, store, entries = kept(folder)
    stored = load(folder, entries, store)
    files = FarFiles(folder / "store-of-tests")
    store.files = files
    stored.keep_by_store(store)
    assert set(files.counts) == {"names"}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            f"store/{DIGEST}/x.json",
            f"^.*yaml: haystacks: 'store/{DIGEST}/x.json': store '.*' holds no such source; run or submit",
        ),
        ("store/news.json", "^.*yaml: no file 'store/news.json' in .*; one in the store is store/ and its 64 hex digits"),
    ],
)
def test_what_the_store_does_not_hold(tmp_path: Path, entry: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as refused:
        load(tmp_path, [entry], Store(str(tmp_path / "empty")))
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "empty").exists()


def test_one_source_by_two_names_is_refused(folder: Path) -> None:
    _, store, entries = kept(folder)
    with pytest.raises(SpecError, match=r"haystacks\[1\]: 'store/.*' has the same content as 'topic_news1.json'"):
        load(folder, ["topic_news1.json", entries[0]], store)


def test_damage_and_silence_of_the_store_stay_what_they_are(folder: Path) -> None:
    grid, store, entries = kept(folder)
    damaged = store.files.where(f"objects/haystack/{grid.grid.haystacks.metadata[0].digest}")
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
    monkeypatch.setattr("summhay_ray.api.arguments.Store", opened.append)
    api.load({**SAMPLE, "haystacks": ["sample/news"]}, store="s3://no/where")
    assert opened == []


def test_what_lies_in_the_store_needs_no_file_of_the_package(folder: Path) -> None:
    grid, store, entries = kept(folder)
    mixed = load(folder, ["sample/conversation", "other one", entries[0]], store)
    assert mixed.by_store() == {"other one": entries[1]}
    found = package.pack(mixed, mixed.by_store())
    assert (found.files, found.spec["haystacks"]) == ({}, ["sample/conversation", entries[1], entries[0]])
    near = package.pack(mixed)
    assert (list(near.files), near.spec["haystacks"]) == (["other one"], ["sample/conversation", "other one", entries[0]])
    there = load(None, ["sample/conversation", entries[1], entries[0]], store)
    assert there.run_id == mixed.run_id and there.grid.haystacks.metadata == mixed.grid.haystacks.metadata
