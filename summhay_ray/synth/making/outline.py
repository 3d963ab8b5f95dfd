"""Makes the outline of a topic: subtopics, insights and queries, each checked.

Source: Laban et al., "Summary of a Haystack", section 3.2 and appendices A.1.1 and A.1.2. Items that fail a check are requested
again at most `Domain.outline_rounds` times; the prompt lists existing and failed ones, which the model must avoid. Ids count
proposals: `s3` is the third subtopic proposed, `s3-i2` the second insight proposed for it.
"""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from summhay_ray.synth.checking.verifier import Verifier
from summhay_ray.synth.making.asking import GaveUp, Work, all_of
from summhay_ray.synth.making.kinds import PlannedHaystack, PlannedInsight, PlannedSubtopic
from summhay_ray.synth.making.prompting import numbered

LEAST_INSIGHTS = 3
"""Minimum number of insights of a subtopic. One that ends with fewer is dropped (3.2: expandable into at least three
insights)."""


@dataclass
class _Draft:
    """A subtopic while its insights are being made. `made` counts its proposed insights; `refused` lists the texts that
    failed."""

    subtopic_id: str
    name: str
    text: str
    asked: bool = True
    made: int = 0
    insights: list[PlannedInsight] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def add(self, name: str, text: str, conflicts_with: str = "") -> PlannedInsight:
        self.made += 1
        insight = PlannedInsight(f"{self.subtopic_id}-i{self.made}", self.subtopic_id, name, text, conflicts_with)
        self.insights.append(insight)
        return insight

    def drop(self, insight_ids: set[str]) -> None:
        self.refused += [insight.text for insight in self.insights if insight.insight_id in insight_ids]
        self.insights = [insight for insight in self.insights if insight.insight_id not in insight_ids]

    def planned(self) -> PlannedSubtopic:
        return PlannedSubtopic(self.subtopic_id, self.name, self.text, "", tuple(self.insights), self.asked)


def half(wanted: int) -> int:
    """Return how many of the requested subtopics must remain at the end."""
    return (wanted + 1) // 2


def seeded(*parts: object) -> random.Random:
    """Return a random generator seeded by the parts. It is the same on every machine."""
    text = "\0".join(map(str, parts))
    return random.Random(int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16], "big"))


async def make_outline(work: Work, verifier: Verifier) -> PlannedHaystack:
    """Make the outline of the recipe's topic. Raise GaveUp (stages subtopics, insights and queries), and what the verifier
    raises."""
    shape, difficulty = work.recipe.shape, work.recipe.difficulty
    # Subtopics with queries come first, so the number of distracting ones does not change them.
    drafts = await _propose(work, verifier, [], shape.subtopics)
    if difficulty.distractors:
        drafts = await _propose(work, verifier, drafts, difficulty.distractors)
    drafts = _enough(work, drafts)
    rounds = await _insights(work, verifier, drafts)
    least = min(LEAST_INSIGHTS, shape.insights)
    drafts = _enough(work, [draft for draft in drafts if len(draft.insights) >= least])
    await _conflicts(work, verifier, drafts, rounds)
    planned = [draft.planned() for draft in drafts]
    with_queries = [
        _query(work, verifier, subtopic, [insight for other in planned if other is not subtopic for insight in other.insights])
        for subtopic in planned
    ]
    return PlannedHaystack(work.recipe.topic, tuple(await all_of(list(with_queries))))


async def _propose(work: Work, verifier: Verifier, before: list[_Draft], wanted: int) -> list[_Draft]:
    """Return the subtopics in `before`, and up to `wanted` more that pass their checks."""
    recipe, kept = work.recipe, list(before)
    refused: list[str] = []
    made = max((int(draft.subtopic_id[1:]) for draft in before), default=0)
    first = recipe.domain.outline_rounds + 1 if before else 0
    for round in range(recipe.domain.outline_rounds + 1):
        given = {
            "n": len(before) + wanted - len(kept),
            "avoid": numbered([*(draft.text for draft in kept), *refused]),
            "context": list(recipe.topic.context),
            "participants": recipe.participants,
        }
        for name, text in await work.need("subtopics", "subtopics", given, round):
            made += 1
            kept.append(_Draft(f"s{made}", name, text, asked=not before))
        texts = [(draft.subtopic_id, draft.text) for draft in kept]
        dropped = await verifier.subtopics(texts, first + round, [draft.subtopic_id for draft in before])
        refused += [draft.text for draft in kept if draft.subtopic_id in dropped]
        kept = [draft for draft in kept if draft.subtopic_id not in dropped]
        if len(kept) == len(before) + wanted:
            break
    return kept


def _enough(work: Work, drafts: list[_Draft]) -> list[_Draft]:
    """Return the drafts. Raise GaveUp if fewer than half of the subtopics, or of the distracting ones, remain."""
    shape, difficulty = work.recipe.shape, work.recipe.difficulty
    for asked, wanted, what in ((True, shape.subtopics, "subtopics"), (False, difficulty.distractors, "distracting subtopics")):
        left = sum(draft.asked == asked for draft in drafts)
        if left < half(wanted):
            message = f"{left} of {wanted} {what} passed their checks, and at least {half(wanted)} must; ask for fewer"
            raise GaveUp("subtopics", "too_few_subtopics", message)
    return drafts


async def _insights(work: Work, verifier: Verifier, drafts: list[_Draft]) -> int:
    """Fill the drafts with insights. Return the number of rounds."""
    recipe = work.recipe
    for round in range(recipe.domain.outline_rounds + 1):
        # Subtopics are processed one after the other, since each prompt shows the insights of the others (A.1.2).
        for draft in drafts:
            missing = recipe.shape.insights - len(draft.insights)
            if not missing:
                continue
            given = {
                "subtopic": draft.text,
                "n": missing,
                "others": [
                    {"subtopic": other.text, "insights": [insight.text for insight in other.insights]}
                    for other in drafts
                    if other is not draft and (other.asked or not draft.asked)
                ],
                "avoid": numbered([*(insight.text for insight in draft.insights), *draft.refused]),
                "context": list(recipe.topic.context),
                "participants": recipe.participants,
            }
            for name, text in await work.need("insights", "insights", given, round):
                draft.add(name, text)
        dropped = await verifier.insights([draft.planned() for draft in drafts], round)
        for draft in drafts:
            draft.drop(dropped)
        if all(len(draft.insights) == recipe.shape.insights for draft in drafts):
            break
    return round + 1


async def _conflicts(work: Work, verifier: Verifier, drafts: list[_Draft], rounds: int) -> None:
    """Add a conflicting insight to `difficulty.conflicts` insights of the subtopics with queries."""
    recipe = work.recipe
    wanted = recipe.difficulty.conflicts
    candidates = _candidates(work, drafts)
    paired = 0
    for round in range(recipe.domain.outline_rounds + 1):
        tried = [candidates.pop(0) for _ in range(min(wanted - paired, len(candidates)))]
        added: set[str] = set()
        for draft, insight in tried:
            given = {"subtopic": draft.text, "insight": insight.text}
            name, text = await work.need("insights", "conflicting_insight", given, round)
            if _letters(text) == _letters(insight.text):
                continue
            other = draft.add(name, text, insight.insight_id)
            place = draft.insights.index(insight)
            draft.insights[place] = replace(insight, conflicts_with=other.insight_id)
            added.add(other.insight_id)
        if added:
            dropped = await verifier.insights([draft.planned() for draft in drafts], rounds + round)
            # If an accepted insight now fails, a new one is the cause, so all new ones are dropped.
            undone = added if dropped - added else dropped & added
            for draft in drafts:
                draft.drop(undone)
                draft.insights = [
                    replace(insight, conflicts_with="") if insight.conflicts_with in undone else insight
                    for insight in draft.insights
                ]
            paired += len(added) - len(undone)
        if paired == wanted or not candidates:
            break
    if paired < wanted:
        message = f"{paired} of {wanted} insights got a conflicting one that passed its checks; lower difficulty.conflicts"
        raise GaveUp("insights", "too_few_conflicts", message)


def _candidates(work: Work, drafts: list[_Draft]) -> list[tuple[_Draft, PlannedInsight]]:
    """Return the insights of all subtopics with queries in seeded order: one of each subtopic, then a second of each, and so
    on."""
    chance = seeded(work.recipe.seed, work.recipe.topic.name, "conflicts")
    asked = [draft for draft in drafts if draft.asked]
    chance.shuffle(asked)
    shuffled = [chance.sample(draft.insights, len(draft.insights)) for draft in asked]
    most = max(map(len, shuffled), default=0)
    return [
        (draft, insights[place])
        for place in range(most)
        for draft, insights in zip(asked, shuffled, strict=True)
        if place < len(insights)
    ]


async def _query(work: Work, verifier: Verifier, subtopic: PlannedSubtopic, others: Sequence[PlannedInsight]) -> PlannedSubtopic:
    """Return the subtopic with a query that reveals no insight. A distracting subtopic gets none."""
    if not subtopic.asked:
        return subtopic
    given = {
        "subtopic": subtopic.text,
        "avoid": [insight.text for insight in subtopic.insights],
        "participants": work.recipe.participants,
    }
    async with work.slots:
        for round in range(work.recipe.domain.outline_rounds + 1):
            asking = replace(subtopic, query=await work.need("queries", "query", given, round))
            if await verifier.query(asking, others, round):
                return asking
    every = f"every query for subtopic {subtopic.text[:60]!r} gives an insight away, after {round} regenerations"
    message = f"{every}; use another models.outline, or reword the topic"
    raise GaveUp("queries", "query_leaks", message)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))
