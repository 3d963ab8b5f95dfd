"""The context of a query: the documents that the model sees, in order, and how much of the last one (paper, sections 5.1, 5.4).

After retrieval, documents are taken in rank order up to a token budget (paper, section 5.1: 15,000). A whole haystack is shown in
the order that the plan names. A `Context` has only document numbers; `shown_documents` restores the texts, which are equal on
every machine.

To add an ordering, write a function `(haystack, subtopic_id, seed) -> document numbers` anywhere on the Python path, and name it
in the spec: `orderings: [my_package.my_module:my_ordering]`.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from summhay_ray import plugins
from summhay_ray.records import Context, Haystack
from summhay_ray.summarize.base import Shown
from summhay_ray.text import count_tokens, first_tokens

Ordering = Callable[[Haystack, str, int], list[int]]
"""(haystack, subtopic_id, seed) -> the numbers of all documents."""


@dataclass(frozen=True, slots=True)
class ContextPlan:
    """The settings for contexts of one retriever and ordering; the same for every query."""

    retriever: str
    """The retriever's name in the spec."""
    ordering: str = "given"
    """The order of a whole haystack. A ranking keeps its order, which is called `given`."""
    token_budget: int | None = None
    """Maximum cl100k tokens of documents, at least 1; None for no limit. Ignored for a whole haystack."""
    seed: int = 0
    """The spec's seed. It is part of the context's id, even if the retriever is not random."""
    whole: bool = False
    """Whether the ranking is the haystack itself (`Retriever.whole`)."""


def assemble(haystack: Haystack, subtopic_id: str, ranked: Sequence[int], plan: ContextPlan) -> Context:
    """Return the context of one query. `ranked`: document numbers in ranking order.

    Documents are added while the total is below the budget. If the last one exceeds the budget, `last_tokens` is the number of
    its tokens within the budget; otherwise it is None. Raises ValueError if `ranked` repeats a document or has an unknown number,
    and for a plan that cannot be carried out.
    """
    if plan.token_budget is not None and plan.token_budget < 1:
        raise ValueError(f"token_budget is {plan.token_budget}; give at least 1 token, or null for no limit")
    if not plan.whole and plan.ordering != "given":
        raise ValueError(f"retriever {plan.retriever!r} keeps its order and takes no ordering {plan.ordering!r}; use 'given'")
    texts = {document.number: document.text for document in haystack.documents}
    if unknown := set(ranked).difference(texts):
        raise ValueError(f"retriever {plan.retriever!r} ranks document {min(unknown)}; {haystack.name!r} has no such number")
    if len(set(ranked)) < len(ranked):
        raise ValueError(f"retriever {plan.retriever!r} ranks a document of {haystack.name!r} twice; rank each once")
    numbers, budget, in_ranking = list(ranked), plan.token_budget, set(ranked)
    if plan.whole:
        budget = None
        numbers = [number for number in order(plan.ordering, haystack, subtopic_id, plan.seed) if number in in_ranking]
    total, last_tokens = 0, None
    for place, number in enumerate(numbers, start=1):
        length = count_tokens(texts[number])
        if budget is not None and total + length >= budget:
            left = budget - total
            numbers, total, last_tokens = numbers[:place], budget, left if length > left else None
            break
        total += length
    content = [haystack.haystack_id, subtopic_id, plan.retriever, plan.ordering, budget, plan.seed]
    return Context(
        context_id=hashlib.sha256(json.dumps(content, separators=(",", ":")).encode("ascii")).hexdigest(),
        haystack_id=haystack.haystack_id,
        subtopic_id=subtopic_id,
        retriever=plan.retriever,
        ordering=plan.ordering,
        numbers=tuple(numbers),
        n_tokens=total,
        last_tokens=last_tokens,
    )


def shown_documents(haystack: Haystack, context: Context) -> tuple[Shown, ...]:
    """Return the documents as the model sees them, in the context's order, each with its number in the haystack.

    A character that the cut would split is left out. If it is the document's first character, the text is empty. Raises
    ValueError for the context of another haystack.
    """
    if context.haystack_id != haystack.haystack_id:
        owner = f"{context.haystack_id!r}, not {haystack.haystack_id!r}"
        raise ValueError(f"context {context.context_id!r} belongs to haystack {owner}; pass the haystack that it was made from")
    texts = {document.number: document.text for document in haystack.documents}
    documents = [Shown(number, texts[number]) for number in context.numbers]
    if context.last_tokens is not None:
        last = documents.pop()
        documents.append(Shown(last.number, first_tokens(last.text, context.last_tokens)))
    return tuple(documents)


def order(name: str, haystack: Haystack, subtopic_id: str, seed: int) -> list[int]:
    """Return the numbers of all documents in the given order.

    `given`: document order. `random`: pseudo-random, by seed and content. `top`, `bottom`: by oracle score, descending or
    ascending, with ties in document order. `middle`: relevant documents in the middle (`_middle`). Raises UnknownName for an
    unknown name, and ValueError if a user's function does not return every document exactly once.
    """
    numbers = list(find_ordering(name)(haystack, subtopic_id, seed))
    if sorted(numbers) != sorted(document.number for document in haystack.documents):
        raise ValueError(
            f"ordering {name!r} returned {len(numbers)} numbers for the {len(haystack.documents)} documents of haystack "
            f"{haystack.name!r}; it must return every document's number once"
        )
    return numbers


def find_ordering(name: str) -> Ordering:
    """Return the function of a built-in ordering, or the one at `module:function`. Raise UnknownName."""
    if ":" in name:
        loaded = plugins.load(name)
        if not callable(loaded):
            raise plugins.UnknownName(
                f"{name!r} is not an ordering; expected a function (haystack, subtopic_id, seed) -> numbers"
            )
        ordering: Ordering = loaded
        return ordering
    if name not in _ORDERINGS:
        raise plugins.unknown("ordering", name, _ORDERINGS)
    return _ORDERINGS[name]


def _given(haystack: Haystack, subtopic_id: str, seed: int) -> list[int]:
    return [document.number for document in haystack.documents]


def _random(haystack: Haystack, subtopic_id: str, seed: int) -> list[int]:
    draws = _draws("random", haystack, subtopic_id, seed)
    return sorted(draws, key=lambda number: draws[number])


def _top(haystack: Haystack, subtopic_id: str, seed: int) -> list[int]:
    scores = _scores(haystack, subtopic_id)
    return sorted(scores, key=lambda number: -scores[number])


def _bottom(haystack: Haystack, subtopic_id: str, seed: int) -> list[int]:
    scores = _scores(haystack, subtopic_id)
    return sorted(scores, key=lambda number: scores[number])


def _middle(haystack: Haystack, subtopic_id: str, seed: int) -> list[int]:
    """Put relevant documents, best first, in the middle. A seeded coin puts each other document before or after them."""
    scores = _scores(haystack, subtopic_id)
    draws = _draws("middle", haystack, subtopic_id, seed)
    rest = [number for number, score in scores.items() if score == 0]
    relevant = [number for number in _top(haystack, subtopic_id, seed) if scores[number] > 0]
    before = [number for number in rest if draws[number][0] % 2 == 0]
    after = [number for number in rest if draws[number][0] % 2 == 1]
    return before + relevant + after


_ORDERINGS: dict[str, Ordering] = {"given": _given, "random": _random, "top": _top, "bottom": _bottom, "middle": _middle}


def _scores(haystack: Haystack, subtopic_id: str) -> dict[int, int]:
    scores = haystack.oracle_scores(subtopic_id)
    return {document.number: score for document, score in zip(haystack.documents, scores, strict=True)}


def _draws(purpose: str, haystack: Haystack, subtopic_id: str, seed: int) -> dict[int, bytes]:
    """Return document number -> a hash of seed and content, used as a uniform draw. It is equal in every process."""
    draws = {}
    for document in haystack.documents:
        # The haystack's id must not be used: it changes when a summary is added to the haystack's file, but the order must not
        # change.
        content = ["ordering", purpose, seed, haystack.topic, subtopic_id, document.document_id]
        draws[document.number] = hashlib.sha256(json.dumps(content).encode("ascii")).digest()
    return draws
