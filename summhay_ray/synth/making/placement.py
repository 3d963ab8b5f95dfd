"""Chooses the insights of each document, and its references to other documents. The functions are pure and seeded.

Source: Laban et al., "Summary of a Haystack", section 3.2: each document gets a random set of insights across subtopics. Here,
the numbers of documents per insight and of insights per document are fixed first. Then a random arrangement with exactly these
numbers is drawn. A greedy filling succeeds whenever an arrangement exists; random exchanges then preserve the numbers.
"""

import random
from bisect import bisect_left
from collections.abc import Sequence
from datetime import date, timedelta

from summhay_ray.errors import UserError
from summhay_ray.synth.making.domains import Domain
from summhay_ray.synth.making.kinds import Difficulty, PlannedDocument, PlannedHaystack, PlannedInsight, Shape
from summhay_ray.synth.making.outline import seeded

WORDS_PER_INSIGHT = 18
"""Minimum number of a document's words per insight. The text of an insight has about 25 words."""
_EXCHANGES = 6
"""Number of exchanges that are tried per placed insight: enough to remove all traces of the filling's order."""
_YEARS = 2
"""Range of years for the documents' dates."""
_FIRST_DAY = date(2024, 1, 8)
"""First date of documents. It is later than all dates that the offline writer invents."""


def planned_insights(shape: Shape, difficulty: Difficulty) -> int:
    """Return the number of insights of a haystack in which every subtopic gets all requested ones."""
    return (shape.subtopics + difficulty.distractors) * shape.insights + difficulty.conflicts


def placements(shape: Shape, difficulty: Difficulty, domain: Domain, insights: int) -> int:
    """Return the total number of insights of all documents, for a haystack of `insights` insights."""
    if difficulty.documents_per_insight is not None:
        return difficulty.documents_per_insight * insights
    usual = max(1, round(domain.insights_per_document * shape.words / domain.words))
    return min(max(shape.documents * usual, difficulty.least * insights), shape.documents * insights)


def check_placement(shape: Shape, difficulty: Difficulty, domain: Domain, insights: int | None = None) -> None:
    """Raise UserError, with the field to change, if shape and difficulty contradict each other. `insights`: their number in the
    haystack, by default all that are requested."""
    n = planned_insights(shape, difficulty) if insights is None else insights
    average, least, documents = difficulty.documents_per_insight, difficulty.least, shape.documents
    field = "difficulty.least" if average is None else "difficulty.documents_per_insight"
    held = least if average is None else average
    if held < least:
        raise UserError(f"{field} is {held}, below difficulty.least, {least}; raise it or lower difficulty.least")
    if held > (documents // 2 if difficulty.conflicts else documents):
        sides = " (half of them for each side of a conflict)" if difficulty.conflicts else ""
        raise UserError(f"{documents} documents{sides} are too few for {field} {held}; raise documents or lower {field}")
    with_query = shape.subtopics * shape.insights
    if difficulty.conflicts > with_query:
        raise UserError(f"difficulty.conflicts is {difficulty.conflicts}, but only {with_query} insights have a query; lower it")
    # Each side of a conflict is in at most half of the documents.
    most = (n - 2 * difficulty.conflicts) * documents + 2 * difficulty.conflicts * (documents // 2)
    total = min(placements(shape, difficulty, domain, n), most)
    if total < documents:
        filled = f"{n} insights in {held} documents each fill {total} of {documents} documents, and none may be empty"
        raise UserError(f"{filled}; lower documents to {total} or raise difficulty.documents_per_insight")
    load, fit = -(-total // documents), max(1, shape.words // WORDS_PER_INSIGHT)
    if load > fit:
        needed = f"{n} insights are {load} per document, and {shape.words} words hold {fit}"
        raise UserError(f"{needed}; raise documents to {-(-total // fit)} or words, or lower {field}")


def place(
    outline: PlannedHaystack, shape: Shape, difficulty: Difficulty, domain: Domain, seed: int
) -> tuple[PlannedDocument, ...]:
    """Return the documents of a haystack, numbered from 1.

    Every insight is in at least `least` documents, and in the planned number on average. The numbers of insights of two documents
    differ by at most one, and no document has both sides of a conflict. Raises UserError like `check_placement`.
    """
    insights = outline.insights
    check_placement(shape, difficulty, domain, len(insights))
    chance = seeded(seed, outline.topic.name, "placement")
    total = placements(shape, difficulty, domain, len(insights))
    counts = _counts(insights, total, shape.documents, difficulty, chance)
    held = _fill(insights, counts, shape.documents, chance)
    _mix(held, _partners(insights), chance)
    dates, refers = _references(shape.documents, difficulty.cross_references, seeded(seed, outline.topic.name, "dates"))
    width = len(str(shape.documents))
    return tuple(
        PlannedDocument(
            document_id=f"d{number:0{width}}",
            number=number,
            insight_ids=tuple(insights[place].insight_id for place in chance.sample(places, len(places))),
            date=dates[number - 1],
            refers_to=refers[number - 1],
        )
        for number, places in enumerate(held, 1)
    )


def _partners(insights: Sequence[PlannedInsight]) -> dict[int, int]:
    places = {insight.insight_id: place for place, insight in enumerate(insights)}
    return {place: places[insight.conflicts_with] for place, insight in enumerate(insights) if insight.conflicts_with in places}


def _counts(
    insights: Sequence[PlannedInsight], total: int, documents: int, difficulty: Difficulty, chance: random.Random
) -> list[int]:
    """Return the number of documents of each insight: `least`, plus a share of the rest. `spread` makes the shares uneven."""
    partners = _partners(insights)
    caps = [documents // 2 if place in partners else documents for place in range(len(insights))]
    counts = [difficulty.least] * len(insights)
    ranks = chance.sample(range(len(insights)), len(insights))
    harmonic = sum(1 / (rank + 1) for rank in range(len(insights)))
    uneven = [len(insights) / harmonic / (rank + 1) for rank in ranks]
    weights = [1 - difficulty.spread + difficulty.spread * share for share in uneven]
    rest = min(total, sum(caps)) - sum(counts)
    while rest > 0:
        open_places = [place for place in range(len(insights)) if counts[place] < caps[place]]
        weight = sum(weights[place] for place in open_places)
        shares = {place: rest * weights[place] / weight for place in open_places}
        given = {place: min(int(share), caps[place] - counts[place]) for place, share in shares.items()}
        if not any(given.values()):
            by_remainder = sorted(open_places, key=lambda place: (-shares[place], ranks[place]))
            given = dict.fromkeys(by_remainder[:rest], 1)
        for place, more in given.items():
            counts[place] += more
        rest -= sum(given.values())
    return counts


def _fill(insights: Sequence[PlannedInsight], counts: Sequence[int], documents: int, chance: random.Random) -> list[list[int]]:
    """Return indices of insights, by document.

    The most frequent insights come first, into the documents with the most free places. The sides of a conflict are placed
    together, as one insight with the sum of their frequencies, so that no document gets both.
    """
    base, more = divmod(sum(counts), documents)
    room = [base + (place < more) for place in range(documents)]
    chance.shuffle(room)
    partners = _partners(insights)
    units = [
        (place, partners[place]) if place in partners else (place,)
        for place in range(len(insights))
        if partners.get(place, place) >= place
    ]
    chance.shuffle(units)
    units.sort(key=lambda unit: -sum(counts[place] for place in unit))
    held: list[list[int]] = [[] for _ in range(documents)]
    # Number of free places -> the documents with that many.
    by_room: list[list[int]] = [[] for _ in range(base + 2)]
    for document, left in enumerate(room):
        by_room[left].append(document)
    for unit in units:
        sides = [place for place in unit for _ in range(counts[place])]
        chance.shuffle(sides)
        chosen = _roomiest(by_room, len(sides), chance)
        for (left, document), place in zip(chosen, sides, strict=True):
            held[document].append(place)
            by_room[left - 1].append(document)
    return held


def _roomiest(by_room: list[list[int]], wanted: int, chance: random.Random) -> list[tuple[int, int]]:
    """Remove `wanted` documents with the most free places, at random among equals. Return (free places, document) of each."""
    chosen: list[tuple[int, int]] = []
    for left in range(len(by_room) - 1, 0, -1):
        bucket = by_room[left]
        while bucket and len(chosen) < wanted:
            place = int(chance.random() * len(bucket))
            bucket[place], bucket[-1] = bucket[-1], bucket[place]
            chosen.append((left, bucket.pop()))
    return chosen


def _mix(held: list[list[int]], partners: dict[int, int], chance: random.Random) -> None:
    """Exchange insights between documents at random, unless a document would get one twice or both sides of a conflict."""
    sets = [set(places) for places in held]
    documents = len(held)
    for _ in range(_EXCHANGES * sum(map(len, held))):
        one, other = int(chance.random() * documents), int(chance.random() * documents)
        if one == other:
            continue
        mine, theirs = int(chance.random() * len(held[one])), int(chance.random() * len(held[other]))
        give, take = held[one][mine], held[other][theirs]
        if _fits(take, give, sets[one], partners) and _fits(give, take, sets[other], partners):
            held[one][mine], held[other][theirs] = take, give
            sets[one] ^= {give, take}
            sets[other] ^= {give, take}


def _fits(new: int, old: int, present: set[int], partners: dict[int, int]) -> bool:
    """Whether `new` may replace `old` in a document with the insights `present`."""
    partner = partners.get(new)
    return new not in present and (partner is None or partner == old or partner not in present)


def _references(documents: int, share: float, chance: random.Random) -> tuple[list[str], list[tuple[int, ...]]]:
    """Return the ISO date of each document, ascending, and the numbers of the documents to which it refers; both empty if `share`
    is 0."""
    refers: list[tuple[int, ...]] = [()] * documents
    if share <= 0:
        return [""] * documents, refers
    days = range(365 * _YEARS)
    distinct = 2 * documents <= len(days)
    drawn = sorted(chance.sample(days, documents) if distinct else chance.choices(days, k=documents))
    # A document refers only to documents of earlier days.
    earlier = [bisect_left(drawn, day) for day in drawn]
    able = [place for place, before in enumerate(earlier) if before]
    for place in sorted(chance.sample(able, min(round(share * documents), len(able)))):
        refers[place] = (chance.randrange(earlier[place]) + 1,)
    return [(_FIRST_DAY + timedelta(days=day)).isoformat() for day in drawn], refers
