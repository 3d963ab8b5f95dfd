"""Merging: the tables stay, the blocks get few, and little is written again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_rows import batches, commit, done, lost, new_run, watched_run

from summhay_ray.store import Block, RunStore, commits
from summhay_ray.store.blocks import Slice

pytestmark = pytest.mark.core

CELLS = [f"c{number}" for number in range(12)]
TRIES = st.tuples(st.sampled_from(CELLS), st.booleans())


def plain(level: int, size: int, name: str, stage: str = "cell") -> Block:
    return Block(name, name, size, level, stage, 1, {})


@settings(max_examples=8, deadline=None)
@given(tries=st.lists(TRIES, min_size=1, max_size=40), size=st.integers(1, 5), fan=st.integers(2, 4), data=st.data())
def test_neither_batches_nor_merging_change_a_table(
    tmp_path_factory: pytest.TempPathFactory, tries: list[tuple[str, bool]], size: int, fan: int, data: st.DataObject
) -> None:
    finished = [lost(cell) if failed else done(cell) for cell, failed in tries]
    plainly, merged = new_run(tmp_path_factory.mktemp("plain")), new_run(tmp_path_factory.mktemp("merged"))
    commit(plainly, finished)
    committer = merged.committer(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commits, "_FAN", fan)
        patch.setattr(commits, "BLOCK_BYTES", data.draw(st.sampled_from([1, 12_000, 1 << 20])))
        for batch in batches(finished, size):
            committer.add([merged.write("cell", batch)])
            if data.draw(st.booleans()):
                committer.compact()
        before = merged.digests()
        committer.finish()
    assert before == merged.digests() == plainly.digests()
    assert merged.finished("cell") == plainly.finished("cell")


def levels(run: RunStore) -> list[int]:
    return [block.level for block in run.manifest().blocks]


def test_eight_side_by_side_become_one_of_the_next_level(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    committer = run.committer(1)
    for place in range(70):
        committer.add([run.write("cell", [done(f"c{place}")])])
        assert committer.compact() in (0, 8, 15), "at the 64th: 8 of level 0, with the 7 of level 1 before them"
    assert levels(run) == [2, 0, 0, 0, 0, 0, 0] and run.added() == 70
    committer.finish()
    assert levels(run) == [3] and run.table("summaries").height == 70
    version = run.version()
    committer.finish()
    assert run.version() == version, "what is merged is not merged again"


def test_stages_are_not_merged_with_each_other(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    committer = run.committer(1)
    for place in range(8):
        committer.add([run.write(stage, [done(f"c{place}")]) for stage in ("context", "cell")])
    assert committer.compact() == 16
    assert [(block.stage, block.units) for block in run.manifest().blocks] == [("context", 8), ("cell", 8)]


def test_rows_of_what_is_superseded_go_and_those_that_may_count_again_stay(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    committer = run.committer(1)
    committer.add([run.write("cell", [lost("a"), lost("b")]), run.write("cell", [done("a")])])
    committer.finish()
    [block] = run.manifest().blocks
    assert {name: one.rows for name, one in block.slices.items()} == {
        "_units": 2,
        "summaries": 1,
        "judgments": 1,
        "failures": 1,
        "raw_answers": 3,
    }
    committer.add([run.write("cell", [done("b")])])
    assert run.table("failures").height == 0 and run.table("raw_answers").height == 3
    committer.finish()
    [block] = run.manifest().blocks
    assert sorted(block.slices) == ["_units", "judgments", "raw_answers", "summaries"], "no failure is left"


def test_large_blocks_are_left_alone() -> None:
    half, limit = commits.BLOCK_BYTES // 2, commits.BLOCK_BYTES
    alike = [plain(0, half, str(place)) for place in range(8)]
    assert all(len(pile.blocks) == 1 for pile in commits.due(alike)), "two of them would be as large as a block may be"
    small = [plain(0, half - 1, str(place)) for place in range(8)]
    assert [len(pile.blocks) for pile in commits.due(small)] == [2, 2, 2, 2]
    assert all(pile.size <= limit for pile in commits.due(small))
    mixed = [*small[:4], plain(0, limit, "large"), *small[4:]]
    assert all(len(pile.blocks) == 1 for pile in commits.due(mixed))


def test_blocks_that_are_large_in_memory_are_left_alone() -> None:
    """Rankings pack to a thirtieth: a merge of a few MB held hundreds."""
    rows = Slice(0, 1000, 100_000, 0, unpacked=2 * commits.BLOCK_BYTES // 8)
    packed = [Block(str(place), str(place), 1000, 0, "cell", 1, {"ranked": rows}) for place in range(16)]
    assert [len(pile.blocks) for pile in commits.due(packed)] == [8, 8]
    large = [replace(block, slices={"ranked": rows._replace(unpacked=2 * commits.BLOCK_BYTES)}) for block in packed]
    assert all(len(pile.blocks) == 1 for pile in commits.due(large))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, commits.BLOCK_BYTES)), max_size=60))
def test_piles_keep_every_block_in_its_order(found: list[tuple[int, int]]) -> None:
    blocks = [plain(level, size, str(place)) for place, (level, size) in enumerate(found)]
    piles = commits.due(blocks)
    assert [block for pile in piles for block in pile.blocks] == blocks
    assert all(pile.size <= commits.BLOCK_BYTES for pile in piles)


def test_what_another_merged_meanwhile_is_left(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    slow, quick = run.committer(1), run.committer(1)
    slow.add([run.write("cell", [done(f"c{place}")]) for place in range(8)])
    quick.add([run.write("cell", [done("more")])])
    known = run.digests()
    quick.finish()
    slow.compact()
    assert levels(run) == [1] and run.digests() == known


def test_many_commits_leave_few_blocks(tmp_path: Path) -> None:
    run, files = watched_run(tmp_path)
    committer, most = run.committer(1), 0
    for place in range(72):
        committer.add([run.write("cell", [done(f"c{place}-{one}") for one in range(3)])])
        committer.compact()
        most = max(most, len(run.manifest().blocks))
    assert most <= 1 + 7 + 7, "one of the third level, and 7 of each below it"
    files.asked.clear()
    assert run.finished("cell").keys() == {f"c{place}-{one}" for place in range(72) for one in range(3)}
    assert files.asked["read"] <= most + 2
    committer.finish()
    files.asked.clear()
    run.digests()
    assert files.asked == {"read": 3, "exists": 1}, "the hint, the manifest, the block"
