"""From a ranking of sentences to one extract a budget. Part of the extract room.

By default each budget is filled for itself, so that an extract never exceeds its budget and does not depend on which others are
asked for. `walk` does as the paper's code does, which neither holds for (its SPEC is the code at commit 65bc6be).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from summhay_ray.extract.base import Document, Extract
from summhay_ray.text import count_tokens


def fill(document: Document, ranking: Iterable[int], budgets: Sequence[int]) -> Mapping[int, Extract]:
    """Take each sentence of the ranking that fits what is left of a budget, until none of the others can; in source order."""
    costs = document.costs
    cheapest = sorted(range(len(costs)), key=costs.__getitem__, reverse=True)
    room = {budget: budget for budget in budgets}
    taken: dict[int, list[int]] = {budget: [] for budget in budgets}
    seen: set[int] = set()
    for number in ranking:
        seen.add(number)
        for budget in budgets:
            if costs[number] <= room[budget]:
                room[budget] -= costs[number]
                taken[budget].append(number)
        while cheapest and cheapest[-1] in seen:
            cheapest.pop()
        if not cheapest or costs[cheapest[-1]] > max(room.values()):
            break
    return {budget: joined(document, sorted(numbers)) for budget, numbers in taken.items()}


def walk(
    document: Document, ranking: Iterable[int], budgets: Sequence[int], newline: bool, source_order: bool
) -> Mapping[int, Extract]:
    """As the paper's code: one walk for all budgets, which stops for a budget at the first sentence that is too long.

    A sentence that is too long closes the least open budget alone and is then taken: where it is longer than two budgets at
    once, the second closes at the next sentence, beyond its size. `newline`: a sentence costs the tokens of itself and a line
    break, else its own and one. `source_order`: the text is put into source order, else it stays in the ranking's.
    """
    found: dict[int, Extract] = {}
    left, chosen, total = sorted(set(budgets)), list[int](), 0
    cost = _with_newline if newline else _and_one

    def close() -> Extract:
        return joined(document, sorted(chosen) if source_order else chosen)

    for number in ranking:
        total += cost(document.sentences[number])
        if total > left[0]:
            found[left.pop(0)] = close()
            if not left:
                break
        chosen.append(number)
    return found | {budget: close() for budget in left}


def joined(document: Document, numbers: Sequence[int]) -> Extract:
    """The extract of these sentences, in this order."""
    return Extract(tuple(numbers), " ".join(document.sentences[number] for number in numbers))


def _with_newline(sentence: str) -> int:
    return count_tokens(f"{sentence}\n")


def _and_one(sentence: str) -> int:
    return count_tokens(sentence) + 1
