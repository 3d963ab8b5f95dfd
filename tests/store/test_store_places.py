"""The index of a log finds one among millions of answers, and needs few bytes for each."""

from __future__ import annotations

import gc
import hashlib
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from summhay_ray.store import LogIndex, LogWriter
from summhay_ray.store.files import LocalFiles

pytestmark = pytest.mark.core


def key_of(n: int) -> str:
    return hashlib.sha256(str(n).encode()).hexdigest()


def answer(key: str, text: str) -> dict[str, Any]:
    head = {"kind": "answer", "key": key, "run": "r", "stage": "s", "model": "m"}
    counts = dict.fromkeys(("usd_micros", "input_tokens", "cached_tokens", "output_tokens"), 1)
    return {**head, **counts, "text": text, "finish_reason": "stop", "attempts": 1}


@pytest.mark.parametrize("most_recent", [3, 4096], ids=["packed", "recent"])
def test_every_key_has_its_first_answer_and_the_next_if_that_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_recent: int
) -> None:
    monkeypatch.setattr("summhay_ray.store.places.MOST_RECENT", most_recent)
    files, rng, written = LocalFiles(tmp_path), random.Random(1), dict[str, list[str]]()
    writers, index = [LogWriter(files, 1), LogWriter(files, 2)], LogIndex(files)
    # Keys of other forms, and one whose bytes end with zeros.
    keys = [*map(key_of, range(40)), "a", "b", "ab" * 31 + "00"]
    for step in range(60):
        chosen = rng.choices(keys, k=rng.randint(1, 8))
        rng.choice(writers).append([answer(key, f"{step} {place}") for place, key in enumerate(chosen)])
        for place, key in enumerate(chosen):
            written.setdefault(key, []).append(f"{step} {place}")
        index.refresh()
        assert set(index.answers) == written.keys()
        assert len(index.answers) == len(written)
        found = rng.choice(list(written))
        record = index.read(found)
        assert record is not None
        assert record["text"] == written[found][0]
        if step % 3 == 0:
            index.drop(found, index.answers[found])
            written[found].pop(0)
            if not written[found]:
                del written[found]
                assert found not in index.answers
                assert index.read(found) is None
    late = LogIndex(files)
    late.refresh()
    assert {key for key in keys if late.read(key) is not None} >= written.keys()


def test_an_answer_in_the_index_takes_less_than_a_hundred_bytes(tmp_path: Path) -> None:
    files, n = LocalFiles(tmp_path), 40_000
    LogWriter(files, 1).append([answer(key_of(number), "text") for number in range(n)])
    gc.collect()
    tracemalloc.start()
    try:
        index = LogIndex(files)
        index.refresh()
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(index.answers) == n
    assert kept / n < 100
