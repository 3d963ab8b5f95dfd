"""Write the summary of a cell (paper, section 3.3). A call ends in a row: an answer, or a failure with its class."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from summhay_ray.benchmark import Ask, RawAnswer
from summhay_ray.benchmarks.summarizing import guarded, read_summary, reducer_of
from summhay_ray.benchmarks.summhay.grid.cells import Cell
from summhay_ray.benchmarks.summhay.grid.grid import Grid
from summhay_ray.benchmarks.summhay.grid.judgments import Truth, truth_of
from summhay_ray.benchmarks.summhay.grid.replay import lookup_of
from summhay_ray.haystack import system_key
from summhay_ray.metrics import by_number, extract_citations, ids_of
from summhay_ray.outcome import Answer
from summhay_ray.records import Context, Haystack, Summary
from summhay_ray.summarize import Task, bullets_of, make_summarizer, shown

TOKENS_A_BULLET = 60
"""Expected length of one bullet with its citations (paper, Table 2: about 30 words)."""


async def summarize_cell(grid: Grid, cell: Cell, context: Context, ask: Ask) -> tuple[Summary | None, Truth]:
    """Write the cell's summary. Returns it with its reference; None in its place if it failed: `ask` records the failure."""
    spec = grid.spec.summarizers[cell.summarizer]
    async with ask.turn("summarize", spec.model, spec.label):
        haystack = await grid.haystacks.fetch(cell.unit.haystack_id)
        truth = truth_of(haystack, cell)
        ask_model = ask.of("summarize", output_tokens=lambda _: len(truth.insights) * TOKENS_A_BULLET)
        task = task_of(grid, cell, haystack, context)

        async def summarize() -> Any:
            return await make_summarizer(spec.strategy).summarize(task, ask_model)

        outcome = read_summary(await guarded("strategy_error", spec.strategy_label, summarize(), ask.planning))
    if isinstance(outcome, Answer):
        raw = outcome.value
        if (given := grid.entries.models.given_answers.get(spec.model)) is not None:
            # A user's own stack knows documents by their ids; the haystack knows their numbers.
            numbers = ids_of([one.document_id for one in haystack.documents])
            listed = given.rag.get(cell.unit.subtopic_id)
            text = by_number(raw.text, numbers) if listed is None else listed.text(lambda one: _cited(one, numbers))
            raw = replace(raw, text=text)
        summary = _summary(cell, spec.label, context, raw)
        if spec.recite is not None and not ask.planning:
            documents = [(document.document_id, document.text) for document in haystack.documents]
            index = await asyncio.to_thread(grid.support_indexes.of, haystack.haystack_id, documents)
            summary = replace(summary, bullets=await asyncio.to_thread(index.recite, summary.bullets))
        return summary, truth
    ask.fail("context" if outcome.error == "context_window" else "summarize", outcome)
    return None, truth


def _cited(document_id: str, numbers: Mapping[str, int]) -> str:
    """The citation of a document by its number; by its id if the haystack lacks it, in a form that no number has."""
    if document_id in numbers:
        return f"[{numbers[document_id]}]"
    return f"[id:{document_id}]" if extract_citations(f"[{document_id}]") else f"[{document_id}]"


def task_of(grid: Grid, cell: Cell, haystack: Haystack, context: Context) -> Task:
    """The task of the cell's summarizer: query, documents shown, model, prompt and sampling."""
    spec = grid.spec.summarizers[cell.summarizer]
    subtopic = next(subtopic for subtopic in haystack.subtopics if subtopic.subtopic_id == cell.unit.subtopic_id)
    return Task(
        haystack=haystack,
        subtopic=subtopic,
        shown=shown(haystack, context),
        model=spec.model,
        prompt=grid.entries.prompt_of(spec),
        sampling=grid.entries.models.sampling(spec),
        sample=cell.repeat,
        lookup=lookup_of(cell, spec.model, system_key(cell.unit.retriever, cell.unit.ordering, spec.model)),
        token_budget=grid.spec.token_budget,
        reducer=reducer_of(grid.entries.models, spec),
    )


def _summary(cell: Cell, label: str, context: Context, raw: RawAnswer) -> Summary:
    unit = cell.unit
    return Summary(
        cell_id=cell.cell_id,
        haystack_id=unit.haystack_id,
        subtopic_id=unit.subtopic_id,
        retriever=unit.retriever,
        ordering=unit.ordering,
        system=cell.system,
        model=label,
        repeat=cell.repeat,
        context_id=context.context_id,
        key=raw.key,
        bullets=bullets_of(raw.text),
    )
