"""The numbered chain: one writer wins a number, readers find the newest whatever the hint says."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.store import LocalFiles, StoreError
from summhay_ray.store.runs.chain import Chain

pytestmark = pytest.mark.core


class CountingFiles(LocalFiles):
    """Counts what is asked of it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: Counter[str] = Counter()

    def read(self, name: str) -> bytes:
        self.asked["read"] += 1
        return super().read(name)

    def exists(self, name: str) -> bool:
        self.asked["exists"] += 1
        return super().exists(name)

    def names(self, folder: str, suffix: str = "") -> Any:
        raise AssertionError(f"{folder} is listed")


def chain_of(root: Path, count: int) -> Chain:
    chain = Chain(CountingFiles(root), "some/chain")
    for number in range(1, count + 1):
        assert chain.append(number, {"place": number})
    return chain


def test_an_empty_chain_has_no_newest(tmp_path: Path) -> None:
    chain = chain_of(tmp_path / "none", 0)
    assert (chain.newest(), chain.latest(), chain.read(1), chain.read(0)) == (None, 0, None, None)
    assert not (tmp_path / "none").exists(), "looking creates nothing"


@given(count=st.integers(1, 40), hint=st.integers(0, 60) | st.sampled_from(["", "x", "-1", "9" * 30, "²", "\x00"]))
def test_the_newest_is_found_whatever_the_hint_says(
    tmp_path_factory: pytest.TempPathFactory, count: int, hint: int | str
) -> None:
    chain = chain_of(tmp_path_factory.mktemp("chain"), count)
    chain.files.put("some/chain/latest", str(hint).encode())
    assert chain.newest() == (count, {"place": count}) and chain.latest() == count
    assert chain.append(count + 1, {}) and chain.newest() == (count + 1, {})


def test_few_reads_find_the_newest(tmp_path: Path) -> None:
    chain = chain_of(tmp_path, 1000)
    files = chain.files
    assert isinstance(files, CountingFiles)
    files.asked.clear()
    assert chain.newest() == (1000, {"place": 1000})
    assert files.asked == {"read": 2, "exists": 1}, "the hint, the record, and that there is no later one"
    (tmp_path / "some/chain/latest").unlink()
    files.asked.clear()
    assert chain.newest() == (1000, {"place": 1000})
    assert files.asked["exists"] <= 2 * 10 and files.asked["read"] == 3, "2 ** 10 > 1000; hint, first, record"


def test_a_taken_number_is_lost_unless_it_is_our_own(tmp_path: Path) -> None:
    chain = chain_of(tmp_path, 1)
    assert chain.append(1, {"place": 1}), "the answer to our write was lost, and we wrote again"
    assert not chain.append(1, {"place": 2})
    assert chain.newest() == (1, {"place": 1})


def test_of_many_writers_one_wins_each_number(tmp_path: Path) -> None:
    wins: Counter[int] = Counter()
    start = threading.Barrier(32)

    def write(who: int) -> None:
        chain = Chain(LocalFiles(tmp_path), "some/chain")
        start.wait()
        for number in range(1, 21):
            if chain.append(number, {"who": who}):
                wins[number] += 1

    threads = [threading.Thread(target=write, args=(who,)) for who in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wins == dict.fromkeys(range(1, 21), 1)
    assert Chain(LocalFiles(tmp_path), "some/chain").latest() == 20


def test_every_flipped_or_lost_byte_of_the_newest_is_seen_and_deleting_it_mends(tmp_path: Path) -> None:
    chain = chain_of(tmp_path, 3)
    path = tmp_path / "some/chain/00000003.json"
    content = path.read_bytes()
    for place in range(len(content)):
        for damaged in (bytes([*content[:place], content[place] ^ 1, *content[place + 1 :]]), content[:place]):
            path.write_bytes(damaged)
            with pytest.raises(StoreError, match=r"chain/00000003.json is damaged; delete it and run again") as refused:
                chain.newest()
            assert "\n" not in str(refused.value) and str(tmp_path) in str(refused.value)
    path.unlink()
    assert (chain.newest(), chain.latest()) == ((2, {"place": 2}), 2)
    assert chain.append(3, {"place": 33}) and chain.newest() == (3, {"place": 33})


def test_damage_of_an_older_record_is_none_of_the_newest(tmp_path: Path) -> None:
    chain = chain_of(tmp_path, 3)
    (tmp_path / "some/chain/00000002.json").write_bytes(b"{}")
    chain.files.put("some/chain/latest", b"2")
    assert chain.newest() == (3, {"place": 3})
    with pytest.raises(StoreError, match="00000002.json is damaged; put it back"):
        Chain(chain.files, "some/chain", "put it back").read(2)


def test_a_hint_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    class NoHints(LocalFiles):
        def put(self, name: str, content: bytes) -> None:
            raise OSError(28, "No space left on device")

    chain = Chain(NoHints(tmp_path), "c")
    assert chain.append(1, {"a": 1}) and chain.append(2, {"a": 2})
    assert chain.newest() == (2, {"a": 2})


def test_a_lost_newest_record_is_told_after_a_cleaning_too(tmp_path: Path) -> None:
    chain_of(tmp_path, 5)
    chain = Chain(LocalFiles(tmp_path), "some/chain")
    (tmp_path / chain.name(5)).unlink()
    assert chain.known() == (4, [5])
    chain.begin_at()
    assert chain.known() == (4, [5]) and chain.newest() == (4, {"place": 4})


def test_a_chain_begins_no_earlier_than_what_was_listed(tmp_path: Path) -> None:
    chain_of(tmp_path, 6)
    chain = Chain(LocalFiles(tmp_path), "some/chain")
    # As an earlier version left it: gaps, and nothing that tells of them but the hint.
    for name in (chain.name(3), chain.name(4), "some/chain/latest"):
        (tmp_path / name).unlink()
    assert chain.latest() == 2
    chain.begin_at(6)
    assert (chain.latest(), chain.newest()) == (6, (6, {"place": 6}))


def test_a_cleaned_chain_whose_last_record_is_lost_says_so_and_begins_anew(tmp_path: Path) -> None:
    chain_of(tmp_path, 3)
    chain = Chain(LocalFiles(tmp_path), "some/chain")
    chain.begin_at()
    for number in (1, 2):
        (tmp_path / chain.name(number)).unlink()
    assert (chain.newest(), chain.known()) == ((3, {"place": 3}), (3, []))
    chain.files.put("some/chain/latest", b"2")
    assert chain.known() == (3, []), "a wrong hint makes no record miss"
    chain.files.put("some/chain/latest", b"3")
    (tmp_path / chain.name(3)).unlink()
    assert (chain.newest(), chain.latest(), chain.known()) == (None, 0, (0, [3]))
    assert chain.append(1, {"place": 11}) and chain.newest() == (1, {"place": 11})
