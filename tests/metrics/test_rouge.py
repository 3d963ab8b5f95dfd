"""ROUGE, compared with the figures of the authors' own script for ODSum-meeting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.metrics import ROUGE_TYPES, rouge
from summhay_ray.text import is_latin

pytestmark = pytest.mark.core

SHARED = Path(__file__).resolve().parents[3] / "shared"


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is absent: no ODSum-meeting, no reference scores")
def test_the_four_systems_score_as_the_authors_script_scores_them():
    queries = json.loads((SHARED / "data/odsum_meeting/queries.json").read_text("utf-8"))
    systems = json.loads((SHARED / "benchmarks/odsum/meeting_rouge.json").read_text("utf-8"))["systems"]
    ranked = json.loads((SHARED / "benchmarks/odsum/meeting_bm25.json").read_text("utf-8"))["queries"]

    def lead(document: str, words: int) -> str:
        return " ".join((SHARED / f"data/odsum_meeting/documents/{document}.txt").read_text("utf-8").split()[:words])

    made = {
        "query_as_summary": lambda key, query: query["query"],
        "bm25_top1_lead200": lambda key, query: lead(ranked[key]["top10"][0][0], 200),
        "oracle_first_gold_lead200": lambda key, query: lead(query["meetings_list"][0], 200),
        "oracle_lead100_each": lambda key, query: " ".join(lead(one, 100) for one in query["meetings_list"]),
    }
    for key, query in list(queries.items())[::9]:
        for name, prediction in made.items():
            found = rouge(prediction(key, query), [query["answer"]])
            expected = systems[name]["queries"][key]
            # The file keeps six decimals.
            assert {kind: round(value, 6) for kind, value in found.items()} == {kind: expected[kind]["f"] for kind in ROUGE_TYPES}


def test_each_type_takes_its_best_reference():
    prediction, near, far = "one two three four", "one two three five", "four three two one"
    best = rouge(prediction, [far, near])
    assert best["rouge1"] == 1.0  # all four words of `far`, in any order
    assert best["rouge2"] == pytest.approx(2 / 3)  # The pairs "one two" and "two three" are two of the three pairs of `near`.
    mean = rouge(prediction, [far, near], over="mean")
    assert mean["rouge1"] == pytest.approx((1.0 + 3 / 4) / 2)


def test_a_prediction_without_a_word_scores_zero_and_no_reference_is_an_error():
    assert set(rouge("...", ["one two"]).values()) == {0.0}
    with pytest.raises(ValueError, match="at least one reference"):
        rouge("one", [])


texts = st.text(max_size=60) | st.lists(st.sampled_from(["run", "runs", "fast", "a", "7", "\n", "."]), max_size=30).map(" ".join)


@given(texts, texts)
def test_any_text_scores_as_the_library_scores_it(prediction: str, reference: str):
    from rouge_score import rouge_scorer

    found = rouge_scorer.RougeScorer(list(ROUGE_TYPES), use_stemmer=True).score(reference, prediction)
    expected = {kind: found[kind].fmeasure for kind in ROUGE_TYPES}
    assert rouge(prediction, [reference], script="latin") == expected
    if is_latin(prediction, reference):
        assert rouge(prediction, [reference]) == expected
