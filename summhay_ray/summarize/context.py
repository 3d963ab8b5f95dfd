"""The context of one query: which documents the model sees, in which order, and how much of the last.

After retrieval, documents are taken in rank order up to a token budget (paper, section 5.1: 15,000). A whole haystack is shown in
the order that the plan names. A `Context` holds only document numbers; `shown` restores the texts, equal on every machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from summhay_ray.records import Context, Haystack
from summhay_ray.summarize.base import Shown
from summhay_ray.summarize.orderings import order
from summhay_ray.text import count_tokens, first_tokens


@dataclass(frozen=True, slots=True)
class ContextPlan:
    """How to make contexts for one retriever and ordering; the same for every query."""

    retriever: str
    """Retriever as the spec names it."""
    ordering: str = "given"
    """Ordering of a whole haystack. A ranking keeps its order, which is `given`."""
    token_budget: int | None = None
    """Maximum cl100k tokens of documents, at least 1; None for no limit. Ignored for a whole haystack."""
    seed: int = 0
    """The spec's seed. Part of the context's id, even if the retriever is not random."""
    whole: bool = False
    """Whether the ranking is the haystack itself (`Retriever.whole`)."""

    def __post_init__(self) -> None:
        if self.token_budget is not None and self.token_budget < 1:
            raise ValueError(f"token_budget is {self.token_budget}; give at least 1 token, or null for no limit")
        if not self.whole and self.ordering != "given":
            raise ValueError(f"retriever {self.retriever!r} keeps its order and takes no ordering {self.ordering!r}; use 'given'")


def assemble(haystack: Haystack, subtopic_id: str, ranked: Sequence[int], plan: ContextPlan) -> Context:
    """The context of one query. `ranked`: document numbers in ranking order.

    Documents are taken while the total is below the budget. The last document may exceed it: `last_tokens` is then the number of
    its tokens within the budget; it is None if nothing is cut. Raises ValueError if `ranked` repeats a document or has an unknown
    number.
    """
    _check(haystack, ranked, plan)
    if plan.whole:
        in_ranking = set(ranked)
        numbers = [number for number in order(plan.ordering, haystack, subtopic_id, plan.seed) if number in in_ranking]
    else:
        numbers = list(ranked)
    numbers, total, last_tokens = _cut(_texts(haystack), numbers, _budget(plan))
    return Context(
        context_id=_context_id(haystack, subtopic_id, plan),
        haystack_id=haystack.haystack_id,
        subtopic_id=subtopic_id,
        retriever=plan.retriever,
        ordering=plan.ordering,
        numbers=tuple(numbers),
        n_tokens=total,
        last_tokens=last_tokens,
    )


def shown(haystack: Haystack, context: Context) -> tuple[Shown, ...]:
    """The documents as the model sees them, in the context's order, each with its number in the haystack.

    A character that the cut would split is left out; if it is the document's first, the text is empty. Raises ValueError for the
    context of another haystack.
    """
    if context.haystack_id != haystack.haystack_id:
        owner = f"{context.haystack_id!r}, not {haystack.haystack_id!r}"
        raise ValueError(f"context {context.context_id!r} belongs to haystack {owner}; pass the haystack that it was made from")
    texts = _texts(haystack)
    documents = [Shown(number, texts[number]) for number in context.numbers]
    if context.last_tokens is not None:
        last = documents.pop()
        documents.append(Shown(last.number, first_tokens(last.text, context.last_tokens)))
    return tuple(documents)


def _texts(haystack: Haystack) -> dict[int, str]:
    return {document.number: document.text for document in haystack.documents}


def _check(haystack: Haystack, ranked: Sequence[int], plan: ContextPlan) -> None:
    unknown = set(ranked).difference(document.number for document in haystack.documents)
    if unknown:
        raise ValueError(f"retriever {plan.retriever!r} ranks document {min(unknown)}; {haystack.name!r} has no such number")
    if len(set(ranked)) < len(ranked):
        raise ValueError(f"retriever {plan.retriever!r} ranks a document of {haystack.name!r} twice; rank each once")


def _cut(texts: dict[int, str], numbers: list[int], budget: int | None) -> tuple[list[int], int, int | None]:
    """(numbers within the budget, their tokens, tokens kept of the last document or None if it is not cut)."""
    total = 0
    for place, number in enumerate(numbers, start=1):
        length = count_tokens(texts[number])
        if budget is not None and total + length >= budget:
            left = budget - total
            return numbers[:place], budget, left if length > left else None
        total += length
    return numbers, total, None


def _budget(plan: ContextPlan) -> int | None:
    return None if plan.whole else plan.token_budget


def _context_id(haystack: Haystack, subtopic_id: str, plan: ContextPlan) -> str:
    content = [haystack.haystack_id, subtopic_id, plan.retriever, plan.ordering, _budget(plan), plan.seed]
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode("ascii")).hexdigest()
