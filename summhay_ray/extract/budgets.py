"""Turn a ranking of sentences into one extract per budget.

`fill` (the default) fills each budget separately: an extract never exceeds its budget and does not depend on the other budgets.
`walk` reproduces the paper's code (commit 65bc6be), which guarantees neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from summhay_ray.extract.base import Document, Extract
from summhay_ray.text import count_tokens


def fill(document: Document, ranking: Iterable[int], budgets: Sequence[int]) -> Mapping[int, Extract]:
    """Budget -> extract, in source order. Takes each ranked sentence that fits the rest of a budget, until none can fit."""
    costs, opening = document.costs, document.opening_costs
    cheapest = sorted(range(len(costs)), key=costs.__getitem__, reverse=True)
    room = {budget: budget for budget in budgets}
    first = dict.fromkeys(budgets, len(costs))
    taken: dict[int, list[int]] = {budget: [] for budget in budgets}
    seen: set[int] = set()
    for number in ranking:
        seen.add(number)
        for budget in budgets:
            if costs[number] + opening[min(first[budget], number)] <= room[budget]:
                room[budget] -= costs[number]
                first[budget] = min(first[budget], number)
                taken[budget].append(number)
        while cheapest and cheapest[-1] in seen:
            cheapest.pop()
        if not cheapest or costs[cheapest[-1]] > max(room.values()):
            break
    return {budget: joined(document, sorted(numbers)) for budget, numbers in taken.items()}


def walk(
    document: Document, ranking: Iterable[int], budgets: Sequence[int], newline: bool, source_order: bool
) -> Mapping[int, Extract]:
    """Budget -> extract as in the paper's code: one walk over the ranking, in which the first sentence that does not fit closes
    a budget.

    Such a sentence closes only the smallest open budget, and is then taken. If it exceeds two budgets at once, the second closes
    at the next sentence, with an extract longer than its budget. For `newline` and `source_order` see `AsReleased`.
    """
    found: dict[int, Extract] = {}
    left, chosen, total = sorted(set(budgets)), list[int](), 0

    def close() -> Extract:
        return joined(document, sorted(chosen) if source_order else chosen)

    for number in ranking:
        sentence = document.sentences[number]
        total += count_tokens(f"{sentence}\n") if newline else count_tokens(sentence) + 1
        if total > left[0]:
            found[left.pop(0)] = close()
            if not left:
                break
        chosen.append(number)
    return found | {budget: close() for budget in left}


def joined(document: Document, numbers: Sequence[int]) -> Extract:
    """The extract of the sentences with these numbers, in this order."""
    return Extract(tuple(numbers), " ".join(document.sentences[number] for number in numbers))
