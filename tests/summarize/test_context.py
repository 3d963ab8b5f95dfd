"""The cut of the context, compared with a direct use of tiktoken, and the reconstruction of the text that a model saw."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.records import Context, Document, Haystack, Insight
from summhay_ray.retrieve import by_score
from summhay_ray.summarize.base import Shown
from summhay_ray.summarize.context import ContextPlan, assemble, shown_documents
from summhay_ray.text import tokens

pytestmark = pytest.mark.core

PIECES = [
    *("word ", " the", "漢字", "😀", "👩\u200d👩\u200d👧", "e\u0301", "\u202e", "\x00", "\x1b"),
    *("<|endoftext|>", "\ufffd", "\n\n", "   "),
]
TEXTS = st.lists(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join), max_size=6)


def haystack_of(*texts: str, held: dict[int, int] | None = None) -> Haystack:
    """Documents 1, 2, ... of `texts`; `held`: the number of subtopic s's insights in each document."""
    documents = tuple(
        Document("h", f"d{number}", number, text, tuple(f"i{place}" for place in range((held or {}).get(number, 0))))
        for number, text in enumerate(texts, 1)
    )
    insights = tuple(Insight("h", "s", f"i{place}", place, "", "") for place in range(3))
    return Haystack("h", "made", "", "", "news", (), documents, (), insights)


def retrieved(budget: int | None) -> ContextPlan:
    return ContextPlan("bm25", token_budget=budget)


def context_of(haystack: Haystack, ranked: list[int], plan: ContextPlan) -> tuple[Context, tuple[Shown, ...]]:
    context = assemble(haystack, "s", ranked, plan)
    return context, shown_documents(haystack, context)


def reference(texts: list[str], budget: int) -> tuple[list[bytes], int]:
    """The bytes of each document in the context and the tokens used, from tiktoken alone."""
    encoding = tokens._encoding()
    taken: list[bytes] = []
    total = 0
    for text in texts:
        encoded = encoding.encode_ordinary(text)
        taken.append(encoding.decode_bytes(encoded[: budget - total]))
        total += len(encoded)
        if total >= budget:
            return taken, budget
    return taken, total


@given(TEXTS, st.integers(1, 60))
def test_the_cut_against_tiktoken(texts: list[str], budget: int) -> None:
    haystack = haystack_of(*texts)
    ranked = list(range(len(texts), 0, -1))
    context, documents = context_of(haystack, ranked, retrieved(budget))
    taken, used = reference([texts[number - 1] for number in ranked], budget)
    assert context.n_tokens == used
    assert [document.number for document in documents] == list(context.numbers) == ranked[: len(taken)]
    for document, data in zip(documents, taken, strict=True):
        # A character that the cut breaks is dropped: less than four bytes.
        assert data.startswith(document.text.encode()) and len(data) - len(document.text.encode()) <= 3
        assert texts[document.number - 1].startswith(document.text)


@given(TEXTS, st.integers(1, 60))
def test_the_text_is_rebuilt_from_the_record_alone(texts: list[str], budget: int) -> None:
    haystack = haystack_of(*texts)
    context, documents = context_of(haystack, list(range(1, len(texts) + 1)), retrieved(budget))
    stored = json.loads(json.dumps([context.numbers, context.last_tokens]))
    again = replace(context, numbers=tuple(stored[0]), last_tokens=stored[1])
    for counts in itertools.chain(*tokens._COUNTS.values()):
        counts.clear()
    assert shown_documents(haystack, again) == documents


def test_the_document_that_passes_the_budget_is_cut_and_the_last() -> None:
    haystack = haystack_of("a b c d", "e f g h", "i")  # Four tokens, four tokens, one token.
    context, documents = context_of(haystack, [2, 1, 3], retrieved(6))
    assert (context.numbers, context.n_tokens, context.last_tokens) == ((2, 1), 6, 2)
    assert documents == (Shown(2, "e f g h"), Shown(1, "a b"))


def test_a_whole_haystack_is_ordered_and_never_cut() -> None:
    haystack = haystack_of("a b", "c", "d e f", held={2: 1, 3: 2})
    context, documents = context_of(haystack, [1, 2, 3], ContextPlan("full", "top", 2, 0, whole=True))
    assert (context.numbers, context.n_tokens, context.last_tokens) == ((3, 2, 1), 6, None)
    assert (context.retriever, context.ordering) == ("full", "top")
    assert documents == (Shown(3, "d e f"), Shown(2, "c"), Shown(1, "a b"))
    part, _ = context_of(haystack, [1, 3], ContextPlan("own:Whole", "bottom", None, 0, whole=True))
    assert part.numbers == (1, 3)


def test_the_context_id_hashes_each_field_and_nothing_else() -> None:
    haystack = haystack_of("a b", "c")
    plan = ContextPlan("full", "given", 5, 1, whole=True)
    context = assemble(haystack, "s", [1, 2], plan)
    # A whole haystack has no budget: null.
    assert context.context_id == hashlib.sha256(b'["h","s","full","given",null,1]').hexdigest()
    cut = ContextPlan("bm25", "given", 5, 1)
    ids = [
        context.context_id,
        assemble(replace(haystack, haystack_id="g"), "s", [1, 2], plan).context_id,
        assemble(haystack, "t", [1, 2], plan).context_id,
        *(assemble(haystack, "s", [1, 2], replace(plan, **{key: value})).context_id for key, value in CHANGES),
        assemble(haystack, "s", [1, 2], cut).context_id,
        assemble(haystack, "s", [1, 2], replace(cut, token_budget=6)).context_id,
        assemble(haystack, "s", [1, 2], replace(cut, token_budget=None)).context_id,
    ]
    assert len(set(ids)) == len(ids) == 9
    assert assemble(haystack, "s", [1, 2], replace(plan, token_budget=6)).context_id == context.context_id


CHANGES = [("retriever", "own:Whole"), ("ordering", "bottom"), ("seed", 2)]


@pytest.mark.parametrize(
    ("ranked", "message"),
    [([1, 3], "'bm25' ranks document 3; 'made' has no such number"), ([2, 1, 2], "'bm25' ranks a document of 'made' twice")],
)
def test_a_ranking_that_cannot_be_is_refused(ranked: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assemble(haystack_of("a", "b"), "s", ranked, retrieved(5))


def test_an_ordering_is_for_whole_haystacks_only() -> None:
    with pytest.raises(ValueError, match="'bm25' keeps its order and takes no ordering 'top'"):
        assemble(haystack_of("a", "b"), "s", [1, 2], ContextPlan("bm25", "top", 15_000))


@pytest.mark.parametrize("retriever", ["oracle", "keywords", "rerank3", "vector"])
@pytest.mark.parametrize("name", ["topic_news1", "topic_news2"])
def test_released_summaries_cite_up_to_the_last_document_and_not_the_next(summhay_data: Path, name: str, retriever: str) -> None:
    source = json.loads((summhay_data / f"{name}.json").read_text(encoding="utf-8"))
    haystack = haystack_of(*(document["document_text"] for document in source["documents"]))
    last = behind = 0
    for part in source["subtopics"]:
        scores = [part["retriever"][retriever][document["document_id"]] for document in source["documents"]]
        ranked = [entry.number for entry in by_score(scores)]
        numbers = assemble(haystack, part["subtopic_id"], ranked, retrieved(15_000)).numbers
        for system, summary in part["summaries"].items():
            if system.startswith(f"summary_subtopic_{retriever}_"):
                cited = re.findall(r"\d+", " ".join(re.findall(r"\[([\d,\s]+)\]", json.dumps(summary))))
                last += cited.count(str(numbers[-1]))
                behind += cited.count(str(ranked[len(numbers)]))
    print(f"{name} {retriever}: {last} citations of the last document, {behind} of the next")
    assert last >= 40 and behind == 0
