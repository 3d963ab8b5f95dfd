"""One topic from its job to the rows of its haystack, or of why there is none. Part of the grid room; no Ray."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

from summhay_ray.grid.answering import CellRows
from summhay_ray.grid.cells import Cell
from summhay_ray.grid.opening import haystack_rows
from summhay_ray.grid.sources import source_bytes
from summhay_ray.grid.synth_spec import GROUPS
from summhay_ray.grid.synthesizing import Made, Synthesizing
from summhay_ray.haystack import InvalidHaystack, ReleasedFile, released_from
from summhay_ray.llm import Ask, Gateway, Request, count_tokens
from summhay_ray.outcome import Failed, Malformed, NoAnswer, Outcome, Refusal
from summhay_ray.problems import Problem
from summhay_ray.records import RawAnswer
from summhay_ray.store import Finished, Store
from summhay_ray.synth import OFFLINE, Group, Job, ModelAsker, Synthesized, Topic, Unverified, checked_tables, synthesize

SYNTHESIS = "synthesis"
"""The entry of `topic_metadata` that says how a haystack was made."""
BY_CHECKS, BY_PERSON = "by_checks", "by_person"
"""Who says in its `audit` how right the truth about it is."""


class Asked:
    """The asks of one topic: every raw answer that comes, what calls without one were charged, and whether money ended it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.raw: dict[str, RawAnswer] = {}
        self.charged: Counter[str] = Counter()
        self.over_budget = False

    def of(self, stage: Group) -> Ask:
        """`ask` for a stage: what the money is for."""

        async def ask(request: Request) -> Outcome[RawAnswer]:
            outcome, raw = await self._gateway.complete(request, stage)
            if raw is not None:
                self.raw[raw.key] = raw
            elif isinstance(outcome, Failed):
                self.over_budget |= outcome.error == "budget"
                self.charged[outcome.key] = max(self.charged[outcome.key], outcome.usd_micros)
            return outcome

        return ask

    @property
    def usd_micros(self) -> int:
        """What the topic's answers cost, each once, and what was charged for calls that brought none."""
        return sum(one.usd_micros for one in self.raw.values()) + self.charged.total()


def asker_of(grid: Synthesizing, asks: Mapping[Group, Ask]) -> ModelAsker:
    """Who asks a topic's questions, each through the `ask` of its stage."""
    models = {stage: model.model for stage, model in grid.synth.models.used().items()}
    return ModelAsker(asks, grid.domain, models, {stage: grid.sampling(stage) for stage in models})


async def synthesize_cell(grid: Synthesizing, cell: Cell, topic: Topic, gateway: Gateway, store: Store) -> CellRows:
    """All rows of a topic; its haystack's JSON is in the store before they are given.

    Raises only what no row can hold (a full disk, a bug).
    """
    done, asked, job = CellRows(cell), Asked(gateway), grid.job(topic)
    found = await _tried(job, asker_of(grid, {stage: asked.of(stage) for stage in GROUPS}))
    done.over_budget = asked.over_budget and isinstance(found, Unverified)
    done.add("raw_answers", *(asked.raw[key] for key in sorted(asked.raw)))
    done.add("checks", *found.checks)
    if isinstance(found, Synthesized):
        found = await asyncio.to_thread(_keep, found, topic, asked, store, done) or found
    if isinstance(found, Unverified):
        done.fail(found.stage, _outcome(found, asked.usd_micros))
    return done


def _outcome(found: Unverified, usd_micros: int) -> NoAnswer:
    """Why there is no haystack, as a row has it; with what the topic cost in all."""
    told = (found.error, found.message, found.key, found.attempts, usd_micros)
    if found.kind == "failed":
        return Failed(*told, retryable=found.retryable)
    return Refusal(*told) if found.kind == "refusal" else Malformed(*told)


async def _tried(job: Job, asker: ModelAsker) -> Synthesized | Unverified:
    try:
        return await synthesize(job, asker)
    except (OSError, Problem):
        raise
    # The border to the synth room: one topic that goes wrong there stops no other.
    except Exception as error:  # noqa: BLE001
        return Unverified("synthesis", "synthesis_error", f"{type(error).__name__}: {error}", retryable=True)


def _keep(found: Synthesized, topic: Topic, asked: Asked, store: Store, done: CellRows) -> Unverified | None:
    """Put the haystack into the store and its rows into `done`; why not, where its JSON is none."""
    raw = {**found.raw, "topic_metadata": {**found.raw["topic_metadata"], SYNTHESIS: _told(found, asked)}}
    try:
        source = released_from(raw, f"{topic.name}.json")
    except InvalidHaystack as error:
        return Unverified("verification", "invalid_haystack", str(error), retryable=True)
    digest = store.put_object("haystack", source_bytes(raw))
    made = Made(done.cell.cell_id, source.haystack.haystack_id, digest)
    done.haystack = Finished(made.unit, haystack_rows(source))
    return None


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
        "calls": len(asked.raw),
        "usd_micros": asked.usd_micros,
    }


def synthesis_of(source: ReleasedFile) -> dict[str, Any]:
    """What a synthesized haystack's JSON says of how it was made; empty for any other."""
    metadata = source.raw.get("topic_metadata")
    told = metadata.get(SYNTHESIS) if isinstance(metadata, dict) else None
    return told if isinstance(told, dict) else {}
