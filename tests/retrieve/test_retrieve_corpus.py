"""Corpora of any benchmark: BM25 equal to rank_bm25, fused rankings, rankings from files, users' retrievers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray import retrieve
from summhay_ray.metrics import retrieval_scores
from summhay_ray.records import Haystack, Subtopic
from summhay_ray.retrieve import BadTrec, Corpus, Fuse, Query, Ranked, Run
from summhay_ray.retrieve.lexical import Index

pytestmark = pytest.mark.core
FRUIT = Corpus("fruit", ("a", "b", "c"), ("apples and pears", "plums", "apples"), (Query("q1", "apples"), Query("q2", "plums")))


@given(st.lists(st.lists(st.sampled_from("abcdefg"), max_size=12), min_size=1, max_size=8), st.lists(st.sampled_from("abcxyz")))
def test_bm25_is_rank_bm25s_to_the_last_bit(documents: list[list[str]], terms: list[str]) -> None:
    from rank_bm25 import BM25Okapi

    found = Index(documents).scores(terms)
    if any(documents):  # rank_bm25 cannot index documents without a term.
        assert np.array_equal(found, BM25Okapi(documents).get_scores(terms))
    else:
        assert not found.any()


def test_a_corpus_of_any_size_has_the_same_formula_and_order() -> None:
    """Only the first documents of a long ranking are kept; the others are the same when they are read."""
    from rank_bm25 import BM25Okapi

    draw = np.random.default_rng(7)
    words = [f"w{n}" for n in range(40)]
    texts = [" ".join(draw.choice(words, size=draw.integers(1, 30))) for _ in range(2500)]
    # Most documents have this word, which has the weight of common terms; no document has the last word.
    texts = [f"{text} common" if place % 4 else text for place, text in enumerate(texts)]
    queries = tuple(Query(str(n), text) for n, text in enumerate(("w1 w2 w2", "common w3", "absent", "common common")))
    for n in (999, 1000, 1001, 2500):
        corpus = Corpus("large", tuple(map(str, range(n))), tuple(texts[:n]), queries)
        reference = BM25Okapi([text.split(" ") for text in texts[:n]])
        for query, ranking in zip(queries, retrieve.rankings(bm25_split(), corpus), strict=True):
            scores = reference.get_scores(query.text.split(" "))
            expected = sorted(range(n), key=lambda place: (-scores[place], place))
            assert len(ranking) == n and [one.number - 1 for one in ranking] == expected
            assert [one.score for one in ranking] == [scores[place] for place in expected]
            first, middle = ranking[:10], ranking[n - 3 : n]
            assert [*first, *middle] == [list(ranking)[place] for place in (*range(10), *range(n - 3, n))]
            assert (ranking[0], ranking[-1], ranking[5:2:-1]) == (first[0], middle[-1], [first[5], first[4], first[3]])
            with pytest.raises(IndexError):
                ranking[n]


def test_each_tokenization_is_its_own() -> None:
    texts = ("Runs  run", "running", "oranges", "plums", "figs")
    corpus = Corpus("runs", tuple("abcde"), texts, (Query("q", "Run run."),))

    def holding(tokenization: str) -> list[int]:
        (ranking,) = retrieve.rankings(retrieve.Bm25(tokenization), corpus)
        return sorted(one.number for one in ranking if one.score > 0)

    # "run." is a single word for `split`, which also keeps the empty word between two spaces.
    assert (holding("split"), holding("words"), holding("stems")) == ([], [1], [1, 2])


def test_odsum_meeting_is_retrieved_as_its_authors_do(shared_data: Path) -> None:
    """ODSum, Table 2: precision, F1 (called R@K there), nDCG and AP of BM25, and of each query, by the authors' own code."""
    folder, reference = shared_data / "odsum_meeting", shared_data.parent / "benchmarks" / "odsum" / "meeting_bm25.json"
    queries = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
    files = sorted((folder / "documents").glob("*.txt"))
    corpus = Corpus(
        "meeting",
        tuple(file.stem for file in files),
        tuple(file.read_text(encoding="utf-8") for file in files),
        tuple(Query(name, one["query"], dict.fromkeys(one["meetings_list"], 1.0)) for name, one in queries.items()),
    )
    ranked = [[corpus.document_ids[one.number - 1] for one in found] for found in retrieve.rankings(bm25_split(), corpus)]
    given_scores = json.loads(reference.read_text(encoding="utf-8"))["queries"]
    for k, means in ((1, (29.8165, 20.1627, 29.8165, 16.9419)), (3, (18.1193, 20.0266, 28.1446, 22.7051))):
        scores = retrieval_scores([(found, query.gold) for found, query in zip(ranked, corpus.queries, strict=True)], k)
        for query, one in zip(corpus.queries, scores, strict=True):
            at = given_scores[query.query_id]["at"][str(k)]
            assert [at[name] for name in ("P", "R", "F1", "NDCG", "AP")] == pytest.approx(
                [one.precision, one.recall, one.f1, one.ndcg, one.ap], abs=1e-6
            )
        found_means = [100 * np.mean([getattr(one, name) for one in scores]) for name in ("precision", "f1", "ndcg", "ap")]
        assert found_means == pytest.approx(means, abs=5e-5)
    assert [found[:10] for found in ranked] == [[name for name, _ in given_scores[q]["top10"]] for q in queries]


def bm25_split() -> retrieve.Bm25:
    return retrieve.Bm25("split")


def test_fused_rankings() -> None:
    first, second = Run({"q1": {"a": 9.0, "b": 1.0}}, "1"), Run({"q1": {"b": 3.0, "c": 3.0}}, "2")
    queries = FRUIT.queries[:1]
    # rrf: a 1/61, b 1/62 + 1/61, c 1/62; sum: a 1, b 0 + 0 (the second ranking has no scores), c 0.
    assert [one.number for one in retrieve.rankings(Fuse([first, second]), FRUIT, queries)[0]] == [2, 1, 3]
    assert retrieve.rankings(Fuse([first, second], "sum"), FRUIT, queries) == [[Ranked(1, 1.0), Ranked(2, 0.0), Ranked(3, 0.0)]]


def test_a_run_file_goes_out_and_comes_back_in_the_same_order() -> None:
    text = retrieve.run_lines("q1", ["c", "a", "b"], "mine") + retrieve.run_lines("q2", [], "mine")
    assert text == "q1 Q0 c 1 3 mine\nq1 Q0 a 2 2 mine\nq1 Q0 b 3 1 mine\n"
    found = Run(retrieve.read_run(text, "mine.run"), "mine.run")
    assert [one.number for one in retrieve.rankings(found, FRUIT, FRUIT.queries[:1])[0]] == [3, 1, 2]
    tied = Run(retrieve.read_run("q1 Q0 c 1 2 t\nq1 Q0 b 2 2 t\nq1 Q0 a 3 1 t\n", "tied.run"), "tied.run")
    assert [one.number for one in retrieve.rankings(tied, FRUIT, FRUIT.queries[:1])[0]] == [2, 3, 1]  # ties: document order
    with pytest.raises(LookupError, match="ranks nothing for query 'q2'"):
        retrieve.rankings(found, FRUIT)
    assert retrieve.read_qrels(retrieve.qrels_lines("q1", {"a": 2.0}) + "q1 0 b 0\n", "q").grades == {"q1": {"a": 2.0, "b": 0.0}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("q1 Q0 a 1 2.0\n", "mine.run:1: expected 'query_id Q0 document_id rank score tag', found 5 fields"),
        ("\nq1 Q0 a 1 high t\n", "mine.run:2: the score is 'high'; expected a number"),
        ("q1 Q0 a 1 nan t\n", "mine.run:1: the score is 'nan'"),
        ("q1 Q0 a 1 2 t\nq1 Q0 a 2 1 t\n", "mine.run:2: query 'q1' ranks document 'a' twice; remove one line"),
    ],
)
def test_a_wrong_run_file_is_reported_by_its_line(text: str, told: str) -> None:
    with pytest.raises(BadTrec, match="^" + told):
        retrieve.read_run(text, "mine.run")


@given(st.text(max_size=60))
def test_any_text_is_a_run_or_told_in_one_line(text: str) -> None:
    try:
        retrieve.read_run(text, "f")
    except BadTrec as error:
        assert "\n" not in str(error)


def test_a_name_with_a_blank_goes_into_no_file() -> None:
    with pytest.raises(BadTrec, match="cannot hold the name 'a b'"):
        retrieve.run_lines("q", ["a b"], "t")


class Shortest:
    """A user's own retriever for haystacks."""

    name, whole = "shortest", False

    def rank(self, subtopic: Subtopic, haystack: Haystack) -> list[Ranked]:
        assert subtopic.query in ("apples", "plums")
        return retrieve.by_score([-len(document.text) for document in haystack.documents])


class AllAtOnce:
    """A user's own retriever for any corpus."""

    name, whole = "all at once", False

    def rank_all(self, queries: list[Query], corpus: Corpus) -> list[list[Ranked]]:
        return [retrieve.by_score([float(query.text in text) for text in corpus.texts]) for query in queries]


def test_retrievers_of_ones_own_answer_for_any_corpus() -> None:
    assert [[one.number for one in found] for found in retrieve.rankings(Shortest(), FRUIT)] == [[2, 3, 1]] * 2
    assert [[one.number for one in found] for found in retrieve.rankings(AllAtOnce(), FRUIT)] == [[1, 3, 2], [2, 1, 3]]


@pytest.mark.parametrize(("errors", "held"), [("replace", 2), ("add", 4), ("drop", 2), ("shuffle", 4)])
def test_the_oracle_makes_the_requested_errors(errors: str, held: int) -> None:
    gold = {name: 5.0 - place for place, name in enumerate("abcd")}
    corpus = Corpus("gold", tuple("abcdefgh"), ("",) * 8, (Query("q", "", gold),))
    (ranking,) = retrieve.rankings(retrieve.Oracle(errors, seed=3, share=0.5), corpus)
    needed = [one.number for one in ranking if one.score > 0]
    assert sum(number <= 4 for number in needed) == held
    assert len(needed) == {"replace": 4, "add": 6, "drop": 2, "shuffle": 4}[errors]
    assert retrieve.rankings(retrieve.Oracle(errors, seed=3, share=0.5), corpus) == [ranking]
    assert retrieve.rankings(retrieve.Oracle(errors, share=0.0), corpus) == retrieve.rankings(retrieve.Oracle(), corpus)
