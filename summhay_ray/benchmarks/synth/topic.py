"""One topic from its job to the rows of its haystack, or of why there is none."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from summhay_ray.benchmark import Answer, Ask, Failed, Malformed, Outcome, Refusal, Request, Rows
from summhay_ray.benchmarks.summhay.opening import haystack_rows
from summhay_ray.benchmarks.summhay.sources import source_bytes
from summhay_ray.benchmarks.synth.made import Made
from summhay_ray.benchmarks.synth.spec import GROUPS
from summhay_ray.errors import UserError
from summhay_ray.haystack import InvalidHaystack, ReleasedFile, released_from
from summhay_ray.llm import Ask as AskModel
from summhay_ray.llm import RawAnswer
from summhay_ray.outcome import NoAnswer
from summhay_ray.store import Store
from summhay_ray.synth import OFFLINE, Group, Job, ModelAsker, Synthesized, Topic, Unverified, checked_tables, synthesize
from summhay_ray.text import count_tokens

if TYPE_CHECKING:
    from summhay_ray.benchmarks.synth.workload import Synth

SYNTHESIS = "synthesis"
"""The entry of `topic_metadata` that says how a haystack was made."""
BY_CHECKS, BY_PERSON = "by_checks", "by_person"
"""Who says in its `audit` how right the truth about it is."""


class Asked:
    """The asks of one topic: what calls without an answer were charged, and whether money ended it."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.charged: Counter[str] = Counter()
        self.over_budget = False

    def of(self, stage: Group) -> AskModel:
        """`ask` for a stage: what the money is for."""
        bare = self._ask.of(stage)

        async def ask(request: Request) -> Outcome[RawAnswer]:
            outcome = await bare(request)
            if isinstance(outcome, Failed):
                self.over_budget |= outcome.error == "budget"
            # What came, usable or not, says itself what it cost.
            if not isinstance(outcome, Answer) and outcome.key not in self._ask.raw:
                self.charged[outcome.key] = max(self.charged[outcome.key], outcome.usd_micros)
            return outcome

        return ask

    @property
    def calls(self) -> int:
        """How many answers the topic stands on."""
        return len(self._ask.raw)

    @property
    def usd_micros(self) -> int:
        """What the topic's answers cost, each once, and what was charged for calls that brought none."""
        return sum(one.usd_micros for one in self._ask.raw.values()) + self.charged.total()


def asker_of(grid: Synth, asks: Mapping[Group, AskModel]) -> ModelAsker:
    """Who asks a topic's questions, each through the `ask` of its stage."""
    models = {stage: model.model for stage, model in grid.spec.models.used().items()}
    return ModelAsker(asks, grid.domain, models, {stage: grid.sampling(stage) for stage in models})


async def synthesize_topic(grid: Synth, cell_id: str, topic: Topic, ask: Ask) -> Rows:
    """All rows of a topic; its haystack's JSON is in the store before they are given.

    Raises only what no row can hold (a full disk, a bug).
    """
    asked, job = Asked(ask), grid.job(topic)
    found = await _tried(job, asker_of(grid, {stage: asked.of(stage) for stage in GROUPS}))
    checks = {"checks": list(found.checks)}
    if isinstance(found, Synthesized):
        assert grid.store is not None
        kept = await asyncio.to_thread(_keep, found, topic, asked, grid.store, cell_id)
        if not isinstance(kept, Unverified):
            return {**checks, **kept}
        found = kept
    ask.over_budget |= asked.over_budget
    ask.fail(found.stage, _outcome(found, asked.usd_micros))
    return checks


def _outcome(found: Unverified, usd_micros: int) -> NoAnswer:
    """Why there is no haystack, as a row has it; with what the topic cost in all."""
    told = (found.error, found.message, found.key, found.attempts, usd_micros)
    if found.kind == "failed":
        return Failed(*told, retryable=found.retryable)
    return Refusal(*told) if found.kind == "refusal" else Malformed(*told, retryable=found.retryable)


async def _tried(job: Job, asker: ModelAsker) -> Synthesized | Unverified:
    try:
        return await synthesize(job, asker)
    except (OSError, UserError):
        raise
    # The border to the synth room: one topic that goes wrong there stops no other.
    except Exception as error:  # noqa: BLE001
        return Unverified("synthesis", "synthesis_error", f"{type(error).__name__}: {error}", retryable=True)


def _keep(found: Synthesized, topic: Topic, asked: Asked, store: Store, cell_id: str) -> dict[str, list[Any]] | Unverified:
    """Put the haystack into the store; its rows, or why its JSON is none."""
    raw = {**found.raw, "topic_metadata": {**found.raw["topic_metadata"], SYNTHESIS: _told(found, asked)}}
    try:
        source = released_from(raw, f"{topic.name}.json")
    except InvalidHaystack as error:
        return Unverified("verification", "invalid_haystack", str(error), retryable=True)
    digest = store.put_object("haystack", source_bytes(raw))
    return {**haystack_rows(source), "made": [Made(cell_id, source.haystack.haystack_id, digest, topic.name)]}


def _told(found: Synthesized, asked: Asked) -> dict[str, Any]:
    """How the haystack was made, with its size and what it cost."""
    texts = [one["document_text"] for one in found.raw["documents"]]
    checks = [check for check in found.checks if check.by != OFFLINE]
    return {
        **found.raw["topic_metadata"].get(SYNTHESIS, {}),
        "tokens": sum(map(count_tokens, texts)),
        "words": sum(len(text.split()) for text in texts),
        "checks": len(found.checks),
        "checks_by_model": len(checks),
        "audit": {BY_CHECKS: checked_tables(found.raw, found.checks)},
        "calls": asked.calls,
        "usd_micros": asked.usd_micros,
    }


def synthesis_of(source: ReleasedFile) -> dict[str, Any]:
    """What a synthesized haystack's JSON says of how it was made; empty for any other."""
    metadata = source.raw.get("topic_metadata")
    told = metadata.get(SYNTHESIS) if isinstance(metadata, dict) else None
    return told if isinstance(told, dict) else {}
