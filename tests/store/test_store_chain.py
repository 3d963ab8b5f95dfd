"""The numbered chain: one writer gets each number, and readers find the newest record, even if earlier ones are missing."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.store import LocalFiles, StoreError
from summhay_ray.store.records import Chain

pytestmark = pytest.mark.core


def chain_of(root: Path, count: int) -> Chain:
    chain = Chain(LocalFiles(root), "some/chain", dict)
    for number in range(1, count + 1):
        assert chain.append(number, {"place": number})
    return chain


def test_an_empty_chain_has_no_newest(tmp_path: Path) -> None:
    chain = chain_of(tmp_path / "none", 0)
    assert (chain.newest(), chain.latest(), chain.read(1), chain.read(0)) == (None, 0, None, None)
    assert not (tmp_path / "none").exists(), "looking creates nothing"


@given(count=st.integers(1, 12), gone=st.sets(st.integers(1, 11)))
def test_the_newest_is_found_whatever_is_missing_before_it(
    tmp_path_factory: pytest.TempPathFactory, count: int, gone: set[int]
) -> None:
    chain = chain_of(tmp_path_factory.mktemp("chain"), count)
    for number in gone - {count}:
        chain.files.delete(chain.name(number))
    for other in ("00000099.beat", "00000099.end.json", "latest"):
        chain.files.put(f"some/chain/{other}", b"99")
    assert chain.newest() == (count, {"place": count}) and chain.latest() == count
    assert chain.append(count + 1, {}) and chain.newest() == (count + 1, {})


def test_a_taken_number_is_lost_unless_it_is_our_own(tmp_path: Path) -> None:
    chain = chain_of(tmp_path, 1)
    assert chain.append(1, {"place": 1}), "the answer to our write was lost, and we wrote again"
    assert not chain.append(1, {"place": 2})
    assert chain.newest() == (1, {"place": 1})


def test_of_many_writers_one_wins_each_number(tmp_path: Path) -> None:
    wins: Counter[int] = Counter()
    start = threading.Barrier(32)

    def write(who: int) -> None:
        chain = Chain(LocalFiles(tmp_path), "some/chain", dict)
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
    assert Chain(LocalFiles(tmp_path), "some/chain", dict).latest() == 20


def test_every_flipped_or_lost_byte_of_the_newest_is_seen_and_deleting_it_mends(tmp_path: Path) -> None:
    chain = chain_of(tmp_path, 3)
    path = tmp_path / "some/chain/00000003.json"
    content = path.read_bytes()
    for place in range(len(content)):
        for damaged in (bytes([*content[:place], content[place] ^ 1, *content[place + 1 :]]), content[:place]):
            path.write_bytes(damaged)
            with pytest.raises(StoreError, match=r"chain/00000003.json is damaged") as refused:
                chain.newest()
            assert "\n" not in str(refused.value) and str(tmp_path) in str(refused.value)
    path.unlink()
    assert (chain.newest(), chain.latest()) == ((2, {"place": 2}), 2)
    assert chain.append(3, {"place": 33}) and chain.newest() == (3, {"place": 33})


def test_damage_of_an_older_record_is_none_of_the_newest(tmp_path: Path) -> None:
    chain = chain_of(tmp_path, 3)
    (tmp_path / "some/chain/00000002.json").write_bytes(b"{}")
    assert chain.newest() == (3, {"place": 3})
    with pytest.raises(StoreError, match="00000002.json is damaged"):
        Chain(chain.files, "some/chain", dict, "put it back").read(2)
