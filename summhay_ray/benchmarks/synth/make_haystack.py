"""Make the haystack of one topic: from its recipe to the rows of a haystack, or a failure."""

import asyncio
import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from summhay_ray.benchmark import Ask, RawAnswer, Request, Rows, Store
from summhay_ray.benchmarks.summarizing import AskModel
from summhay_ray.benchmarks.summhay.haystacks.metadata import haystack_rows, source_bytes
from summhay_ray.benchmarks.synth.recipe import Recipe
from summhay_ray.benchmarks.synth.spec import GROUPS
from summhay_ray.benchmarks.synth.topics import Made
from summhay_ray.haystack import InvalidHaystack, ReleasedFile, released_from
from summhay_ray.outcome import Answer, Failed, Outcome, no_answer
from summhay_ray.synth import OFFLINE, Group, ModelAsker, Synthesized, Topic, Unverified, checked_tables, synthesize
from summhay_ray.text import count_tokens

SYNTHESIS = "synthesis"
"""The entry of `topic_metadata` that describes how a haystack was made."""
BY_CHECKS, BY_PERSON = "by_checks", "by_person"
"""The entries of its `audit`: figures from the checks, and from a person's labels."""


@dataclass
class TopicCalls:
    """The calls for one topic, including the cost of failed calls."""

    to: Ask
    charged: Counter[str] = field(default_factory=Counter)
    """Key of a call without an answer -> its cost."""
    over_budget: bool = False
    """Whether a call was refused because the budget did not suffice."""

    async def ask(self, stage: Group, request: Request) -> Outcome[RawAnswer]:
        """Make a stage's call and count its cost."""
        outcome = await self.to.of(stage)(request)
        if isinstance(outcome, Failed):
            self.over_budget |= outcome.error == "budget"
        # `raw` already contains the cost of every answer, usable or not.
        if not isinstance(outcome, Answer) and outcome.key not in self.to.raw:
            self.charged[outcome.key] = max(self.charged[outcome.key], outcome.usd_micros)
        return outcome

    @property
    def usd_micros(self) -> int:
        """The cost of all answers, each counted once, plus the cost of calls without an answer."""
        return sum(answer.usd_micros for answer in self.to.raw.values()) + self.charged.total()


def asker_of(recipe: Recipe, asks: Mapping[Group, AskModel]) -> ModelAsker:
    """Return the asker for a topic. `asks`: the `ask` of each stage."""
    used = recipe.spec.models.by_stage()
    names = {stage: model.model for stage, model in used.items()}
    # For each stage, pass only the model's parameters that determine its answers.
    return ModelAsker(asks, recipe.domain, names, {stage: recipe.models.sampling(model) for stage, model in used.items()})


async def synthesize_topic(recipe: Recipe, store: Store, cell_id: str, topic: Topic, ask: Ask) -> Rows:
    """Make the haystack of a topic, store it, and return all rows of the topic. Raises only what cannot be recorded as a row
    (a full disk, a bug)."""
    calls, made_from = TopicCalls(ask), recipe.of(topic)
    found = await synthesize(made_from, asker_of(recipe, {stage: functools.partial(calls.ask, stage) for stage in GROUPS}))
    checks = {"checks": list(found.checks)}
    if isinstance(found, Synthesized):
        kept = await asyncio.to_thread(_keep, found, topic, calls, store, cell_id)
        if not isinstance(kept, Unverified):
            return {**checks, **kept}
        found = kept
    ask.over_budget |= calls.over_budget
    # The failure carries the cost of the whole topic.
    outcome = no_answer(found.kind, found.error, found.message, found.key, found.attempts, calls.usd_micros, found.retryable)
    ask.fail(found.stage, outcome)
    return checks


def _keep(
    synthesized: Synthesized, topic: Topic, calls: TopicCalls, store: Store, cell_id: str
) -> dict[str, list[Any]] | Unverified:
    """Put the haystack into the store. Returns its rows, or Unverified if its JSON is not a valid haystack."""
    documents = synthesized.raw["documents"]
    described = {
        **synthesized.raw["topic_metadata"].get(SYNTHESIS, {}),
        "tokens": sum(count_tokens(document["document_text"]) for document in documents),
        "words": sum(len(document["document_text"].split()) for document in documents),
        "checks": len(synthesized.checks),
        "checks_by_model": sum(check.by != OFFLINE for check in synthesized.checks),
        "audit": {BY_CHECKS: checked_tables(synthesized.raw, synthesized.checks)},
        "calls": len(calls.to.raw),
        "usd_micros": calls.usd_micros,
    }
    raw = {**synthesized.raw, "topic_metadata": {**synthesized.raw["topic_metadata"], SYNTHESIS: described}}
    try:
        source = released_from(raw, f"{topic.name}.json")
    except InvalidHaystack as error:
        return Unverified("verification", "invalid_haystack", str(error), retryable=True)
    digest = store.put_object("haystack", source_bytes(raw))
    return {**haystack_rows(source), "made": [Made(cell_id, source.haystack.haystack_id, digest, topic.name)]}


def synthesis_of(source: ReleasedFile) -> dict[str, Any]:
    """Return the `topic_metadata.synthesis` of a haystack; empty if it was not synthesized here."""
    metadata = source.raw.get("topic_metadata")
    synthesis = metadata.get(SYNTHESIS) if isinstance(metadata, dict) else None
    return synthesis if isinstance(synthesis, dict) else {}
