"""Scoring many judgments at once gives the same figures as scoring them one by one."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from summhay_ray.metrics import VALUES, Compat, score_columns, score_summary, words_per_bullet
from summhay_ray.records import Judgment, Score

pytestmark = pytest.mark.core

GOLD = {("h1", "i1"): [1, 2, 3], ("h1", "i2"): [], ("h2", "i1"): [7], ("h2", "i3"): [1, 12, 63, 64, 100, 128, 200]}
WORDS = ("FULL_COVERAGE", "PARTIAL_COVERAGE", "NO_COVERAGE", "MAYBE")
IDS = [json.dumps(value) for value in (1, 2, 3, "2", " 3 ", 0, -1, 9, 2.5, "NA", None, [1, 2], True)] + ["", "{"]
CITING = ["[1]", "[1, 2]", "[12,100]", "[1 2]", "[]", "[ 7 ]", "[1][2]", "[1-3]", "[Articles 1, 7]", "［1］", "[１]", "[1\n2]"]
LONGER = ["[999999999999999999999]", "[007]", "[64][ 128]", "[3, 200] and [5]"]
PIECES = [*CITING, *LONGER, "[see]", "]", "[", " ", "said", "\n", "\x1c", "é"]

bullets = st.lists(st.lists(st.sampled_from(PIECES), max_size=4).map("".join), max_size=4)
judgment = st.tuples(
    st.sampled_from(["a", "b"]), st.sampled_from(["i1", "i2", "i3"]), st.sampled_from(WORDS), st.sampled_from(IDS)
)
cell = st.tuples(st.sampled_from(["h1", "h2"]), bullets, st.lists(judgment, max_size=5))


@given(st.lists(cell, max_size=5), st.sampled_from(["default", "release"]))
@example([("h1", ["[1]"], [("a", "i1", "FULL_COVERAGE", "1"), ("a", "i1", "FULL_COVERAGE", "1")])], "default")
@example([("h1", [], [("a", "i1", "FULL_COVERAGE", "1")]), ("h1", ["[1, 9]"], [("a", "i1", "FULL_COVERAGE", "1")])], "default")
def test_both_give_the_same(cells: list[tuple[str, list[str], list[tuple[str, str, str, str]]]], compat: Compat) -> None:
    names = [f"c{place}" for place in range(len(cells))]
    texts = {"cell_id": pl.String, "haystack_id": pl.String, "bullets": pl.List(pl.String)}
    summaries = pl.DataFrame([(name, one[0], one[1]) for name, one in zip(names, cells, strict=True)], schema=texts, orient="row")
    rows = [(name, *row) for name, one in zip(names, cells, strict=True) for row in one[2]]
    columns = dict.fromkeys(("cell_id", "judge", "insight_id", "coverage", "bullet_id"), pl.String)
    gold = pl.DataFrame(
        [(*key, documents) for key, documents in GOLD.items()],
        schema={"haystack_id": pl.String, "insight_id": pl.String, "documents": pl.List(pl.Int64)},
        orient="row",
    )
    found, odd = score_columns(summaries, pl.DataFrame(rows, schema=columns, orient="row"), gold, compat)
    wanted = []
    for place, (haystack, texts_of_it, judged) in enumerate(cells):
        records = [Judgment("c", judge, insight, 0, "", word, bullet) for judge, insight, word, bullet in judged]
        marks = {insight: frozenset(documents) for (owner, insight), documents in GOLD.items() if owner == haystack}
        scores = score_summary(records, texts_of_it, marks, compat)
        assert (place in odd) == any(not isinstance(row, Score) for row in scores)
        if place not in odd:
            wanted += [(place, *(getattr(row, name) for name in VALUES)) for row in scores]
    assert found.select("summary", *VALUES).rows() == wanted


def test_a_judgment_without_a_summary_is_left_out() -> None:
    summaries = pl.DataFrame({"cell_id": ["c"], "haystack_id": ["h1"], "bullets": [["[1]"]]})
    judged = {"cell_id": ["b", "c"], "judge": "a", "insight_id": "i1", "coverage": "FULL_COVERAGE", "bullet_id": "1"}
    gold = pl.DataFrame({"haystack_id": ["h1"], "insight_id": ["i1"], "documents": [[1]]})
    found, odd = score_columns(summaries, pl.DataFrame(judged), gold)
    assert found.select("judgment", "joint").rows() == [(1, 1.0)] and not len(odd)


def test_words_per_bullet() -> None:
    said = [["Two words", "and  these\tfour [3]"], [""], [], ["a\x1cb\u00a0c"]]
    assert words_per_bullet(said).to_list() == [(2 + 4) / 2, 0, None, 3]
    assert words_per_bullet([]).to_list() == []


@given(st.lists(st.lists(st.text("ab \t\r\x1c\x85\u00a0\u3000é", max_size=8), min_size=1, max_size=3), max_size=4))
def test_words_are_what_white_space_separates(said: list[list[str]]) -> None:
    expected = [sum(len(text.split()) for text in texts) / len(texts) for texts in said]
    assert words_per_bullet(said).to_list() == expected
