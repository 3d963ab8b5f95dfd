"""Minimum, expected and maximum calls and tokens of a haystack. Imported from `summhay_ray.synth`.

The bounds on calls follow from the limits in the pipeline (`outline`, `documents`, `asking.TRIES`); a test compares them with
runs that have faults. Expected figures are based on the assumptions below. Tokens are cl100k tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Literal

from summhay_ray.synth.making.asking import GROUP_OF, TRIES, Group, TopicRecipe
from summhay_ray.synth.making.documents import BEFORE, EVIDENCE, HEADLINE, REWRITES
from summhay_ray.synth.making.domains import Domain
from summhay_ray.synth.making.kinds import Difficulty, Shape, Task, Topic
from summhay_ray.synth.making.outline import LEAST_INSIGHTS, half
from summhay_ray.synth.making.placement import placements, planned_insights
from summhay_ray.synth.making.prompting import MOST_TOKENS
from summhay_ray.text import count_tokens, json_line

FAILS = 0.08
"""Expected share of subtopics, insights and queries that fail a check (Table 4: people assign 9 % of insights elsewhere)."""
EDITED = 0.2
"""Expected share of documents that need a round of editing."""
REJECTED = 0.05
"""Expected share of chapters that are written again (A.1.3: five times in less than 1 % of the cases)."""
UNSURE = {"assign_subtopic": 0.8, "query_leaks": 0.1, "chapter_check": 0.9}
"""Expected share of insights, queries and chapters that the offline checks leave to a model.

On the released haystacks, these checks are sure about 24 of 137 insights and all 18 queries. They are sure about a chapter only
if it has nearly all words of its insight.
"""

_ENTRY = 14
"""Tokens of a list entry in addition to its text."""
_FIELDS = 120
"""Tokens of an input's field names and numbers."""
_ESCAPED = 2.0
"""Upper bound on the tokens of a text as JSON, per token of the text. Runs of quotation marks may exceed it."""
_PER_WORD = 1.4
"""Tokens per English word."""


@dataclass(frozen=True, slots=True)
class CallTotals:
    """A number of calls, and their total tokens."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: CallTotals) -> CallTotals:
        return CallTotals(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(CallTotals)))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Calls and tokens of a group of tasks. `least` is for a finished haystack; an unverified one may take fewer."""

    least: CallTotals = CallTotals()
    expected: CallTotals = CallTotals()
    most: CallTotals = CallTotals()


@dataclass(frozen=True, slots=True)
class _Plan:
    """A recipe, and the sizes of its haystack as (minimum, maximum)."""

    recipe: TopicRecipe
    insights: tuple[int, int]
    """Number of insights of the haystack."""
    placed: tuple[int, int]
    """Number of (document, insight) pairs of the haystack."""
    subtopics: int
    """Number of subtopics to propose, including distracting ones."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Tokens of each kind of text, for one of the bounds."""

    bound: Literal["least", "expected", "most"]
    subtopic: float
    insight: float
    query: float
    document: float
    answer: float
    """Tokens of the whole answer to an outline task or a check."""
    load: float
    """Number of insights (not tokens) that one round of editing removes or adds."""


def bounds(
    topic: Topic, domain: Domain, shape: Shape, difficulty: Difficulty, checked: bool, longest: int = 2000
) -> Mapping[Group, Bounds]:
    """Return the bounds by group, for one haystack.

    `checked`: whether a model decides the cases in which the offline checks are unsure. `longest`: the writer's max_tokens. The
    upper bounds assume that answers in every group have this length, and that texts as JSON have at most twice their tokens.
    """
    kept = half(shape.subtopics) + half(difficulty.distractors)
    fewest = kept * min(LEAST_INSIGHTS, shape.insights) + difficulty.conflicts
    requested = planned_insights(shape, difficulty)
    # Each side of a conflict is in at most half of the documents.
    caps = (fewest - difficulty.conflicts) * shape.documents - difficulty.conflicts * (shape.documents % 2)
    placed = min(placements(shape, difficulty, domain, fewest), max(caps, 0)), placements(shape, difficulty, domain, requested)
    recipe = TopicRecipe("", topic, domain, shape, difficulty)
    plan = _Plan(recipe, (fewest, requested), placed, shape.subtopics + difficulty.distractors)
    words = shape.words * _PER_WORD
    sizes = (
        _Sizes("least", 1, 1, 1, 1, 1, 0),
        _Sizes("expected", 12, 40, 20, words, 60, 1),
        _Sizes("most", MOST_TOKENS["subtopic"], MOST_TOKENS["insight"], MOST_TOKENS["query"], longest, longest, plan.insights[1]),
    )
    counts = (_least(plan), _expected(plan), _most(plan))
    by_group = dict.fromkeys(GROUP_OF.values(), Bounds())
    for task, group in GROUP_OF.items():
        if group == "check" and not checked:
            continue
        least, expected, most = (_tally(plan, task, count.get(task, 0), size) for count, size in zip(counts, sizes, strict=True))
        known = by_group[group]
        by_group[group] = Bounds(known.least + least, known.expected + expected, known.most + most)
    return by_group


def _least(plan: _Plan) -> dict[Task, float]:
    """Return the calls by task for those permitted numbers of dropped subtopics that need the fewest calls. A subtopic is dropped
    only after all rounds, and each round costs calls."""
    shape, difficulty, rounds = plan.recipe.shape, plan.recipe.difficulty, plan.recipe.domain.outline_rounds
    kept = half(shape.subtopics) + half(difficulty.distractors)
    ways = (
        (rounds if planned < plan.subtopics else 0, planned + (planned - final) * rounds, final)
        for planned in range(kept, plan.subtopics + 1)
        for final in range(kept, planned + 1)
    )
    more, insights, final = min(ways, key=lambda way: way[0] + way[1] + _least_queries(plan, way[2]))
    return {
        "subtopics": 1 + bool(difficulty.distractors) + more,
        "insights": insights,
        "conflicting_insight": difficulty.conflicts,
        "query": _least_queries(plan, final),
        **_writing(plan, plan.placed[0], 0, 0),
    }


def _least_queries(plan: _Plan, subtopics: int) -> int:
    """Return the minimum number of subtopics with a query, among `subtopics` in total."""
    return max(half(plan.recipe.shape.subtopics), subtopics - plan.recipe.difficulty.distractors)


def _writing(plan: _Plan, placed: int, rejected: float, edited: float) -> dict[Task, float]:
    documents = plan.recipe.shape.documents
    if plan.recipe.domain.method == "chapters":
        return {"chapter": placed * (1 + rejected), "edit_document": documents * edited}
    return {"document": documents, "edit_document": documents * edited}


def _expected(plan: _Plan) -> dict[Task, float]:
    shape, difficulty = plan.recipe.shape, plan.recipe.difficulty
    again = 1 - (1 - FAILS) ** shape.insights
    insights = plan.insights[1]
    chapters = plan.recipe.domain.method == "chapters"
    proposals = 1 + bool(difficulty.distractors)
    return {
        "subtopics": proposals + (1 - (1 - FAILS) ** plan.subtopics),
        "insights": plan.subtopics * (1 + again),
        "conflicting_insight": difficulty.conflicts * (1 + FAILS),
        "query": shape.subtopics * (1 + FAILS),
        **_writing(plan, plan.placed[1], REJECTED, EDITED),
        "overlapping_subtopics": proposals,
        "duplicate_insights": 1 + bool(difficulty.conflicts),
        "assign_subtopic": insights * UNSURE["assign_subtopic"],
        "query_leaks": shape.subtopics * UNSURE["query_leaks"],
        "chapter_check": plan.placed[1] * UNSURE["chapter_check"] * (1 + REJECTED) if chapters else 0,
        "insights_present": shape.documents * (1 + EDITED),
    }


def _most(plan: _Plan) -> dict[Task, float]:
    recipe, shape, difficulty = plan.recipe, plan.recipe.shape, plan.recipe.difficulty
    outlines, writings = recipe.domain.outline_rounds + 1, REWRITES + 1
    conflicts = min(difficulty.conflicts * outlines, shape.subtopics * shape.insights)
    chapters = plan.placed[1] * (recipe.domain.tries + 1) if recipe.domain.method == "chapters" else 0
    asks: dict[Task, float] = {
        "subtopics": outlines * (1 + bool(difficulty.distractors)),
        "insights": plan.subtopics * outlines,
        "conflicting_insight": conflicts,
        "query": shape.subtopics * outlines,
        "document": 0 if chapters else shape.documents * writings,
        "chapter": chapters,
        "edit_document": shape.documents * recipe.domain.rounds,
        "overlapping_subtopics": outlines * (1 + bool(difficulty.distractors)),
        "duplicate_insights": outlines * (1 + bool(difficulty.conflicts)),
        "assign_subtopic": plan.subtopics * shape.insights * outlines + conflicts,
        "query_leaks": shape.subtopics * outlines,
        "chapter_check": chapters,
        "insights_present": shape.documents * (recipe.domain.rounds + writings),
    }
    return {task: asked * TRIES for task, asked in asks.items()}


def _tally(plan: _Plan, task: Task, calls: float, sizes: _Sizes) -> CallTotals:
    n = -int(-calls // 1)
    if not n:
        return CallTotals()
    recipe = plan.recipe
    base = count_tokens(recipe.domain.prompts[task]) + count_tokens(json_line(recipe.input_fields))
    if task in ("subtopics", "insights", "document"):
        base += count_tokens(json_line({"context": list(recipe.topic.context)}))
    shown = 0.0
    if sizes.bound != "least":
        manner = {"participants": recipe.participants, "genre": recipe.domain.genre, "tone": recipe.domain.tone}
        shown = count_tokens(json_line(manner)) + _FIELDS + sum(_input_tokens(plan, task, sizes))
    return CallTotals(n, round(n * (base + shown)), round(n * _answer_tokens(plan, task, sizes)))


def _input_tokens(plan: _Plan, task: Task, sizes: _Sizes) -> Iterator[float]:
    """Yield the tokens of the parts of a task's input, in addition to the fields of every input."""
    shape, difficulty, rounds = plan.recipe.shape, plan.recipe.difficulty, plan.recipe.domain.outline_rounds
    most = sizes.bound == "most"
    subtopic, insight, query, document = (
        size * (_ESCAPED if most else 1) for size in (sizes.subtopic, sizes.insight, sizes.query, sizes.document)
    )
    subtopic, insight = subtopic + _ENTRY, insight + _ENTRY
    again = rounds + 1 if most else 1
    # Tokens per character: a quarter in English, and about two in the scripts with the most tokens.
    a_letter = 2.0 if most else 0.25
    # On average, half of the subtopics already have their insights, and a document has insights of about half of the subtopics.
    some = 1 if most else 0.5
    total, own = plan.insights[1], shape.insights + difficulty.conflicts
    if task in ("subtopics", "overlapping_subtopics", "assign_subtopic", "chapter_check"):
        yield plan.subtopics * subtopic * (again if task == "subtopics" else 1)
    if task in ("conflicting_insight", "assign_subtopic", "query", "query_leaks", "chapter", "insights"):
        yield subtopic + insight
    if task == "insights":
        yield plan.subtopics * subtopic + total * insight * some + shape.insights * again * insight * some
    if task in ("query", "query_leaks"):
        yield own * insight + query
    if task in ("duplicate_insights", "insights_present", "document", "chapter_check"):
        yield total * insight * (some if task == "document" else 1)
    if task in ("insights_present", "chapter_check", "edit_document"):
        yield document
    if task == "edit_document":
        yield sizes.load * (insight + EVIDENCE * a_letter)
    if task in ("document", "chapter"):
        yield HEADLINE * a_letter if difficulty.cross_references else 0.0
    if task == "chapter":
        yield BEFORE * a_letter


def _answer_tokens(plan: _Plan, task: Task, sizes: _Sizes) -> float:
    """Return the tokens of an answer to the task."""
    shape = plan.recipe.shape
    if sizes.bound != "expected":
        return sizes.answer
    if task in ("document", "edit_document"):
        return sizes.document
    if task == "chapter":
        return sizes.document * shape.documents / max(plan.placed[1], 1)
    if task in ("subtopics", "insights"):
        return (sizes.insight + _ENTRY) * (plan.subtopics if task == "subtopics" else shape.insights)
    return sizes.answer
