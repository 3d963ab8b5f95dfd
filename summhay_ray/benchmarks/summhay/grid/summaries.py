"""The ranking, the context and the summary of a cell (paper, sections 3.3, 5.1 and 5.4).

A call results in a row: an answer, or a failure with its class.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from summhay_ray import retrieve
from summhay_ray.benchmark import Ask, Rows
from summhay_ray.benchmarks.retrieval import NothingFound, no_ranking
from summhay_ray.benchmarks.summarizing import guard, read_summary
from summhay_ray.benchmarks.summhay.grid.grid import Cell, Grid, Unit
from summhay_ray.benchmarks.summhay.grid.judgments import Truth, truth_of
from summhay_ray.benchmarks.summhay.grid.replay import lookup_of
from summhay_ray.haystack import system_key
from summhay_ray.metrics import by_number, extract_citations, ids_of
from summhay_ray.outcome import Answer, Failed
from summhay_ray.records import Context, Haystack, Ranking, Summary
from summhay_ray.summarize import ContextPlan, Reducer, Task, assemble, bullets_of, make_summarizer, shown_documents

TOKENS_A_BULLET = 60
"""Expected length of one bullet with its citations (paper, Table 2: about 30 words)."""


async def ask_context(grid: Grid, unit: Unit, ask: Ask) -> tuple[Context | None, Rows]:
    """Return the context of a unit whose retriever calls a service, and its rows. The context is None after a failure, which
    is reported to `ask`."""
    haystack = await grid.haystacks.fetch(unit.haystack_id)
    corpus = retrieve.corpus_of(haystack)
    query = next(query for query in corpus.queries if query.query_id == unit.subtopic_id)
    ranking = await grid.retrievers.ranking_or_failure(ask, corpus, unit.retriever, query, "context")
    if ranking is None:
        return None, {}
    context, rankings, problem = make_context(grid, haystack, unit, lambda: ranking)
    if problem is not None:
        ask.fail("context", problem)
    cut = grid.retrievers.cut_rows(unit.haystack_id, unit.retriever, unit.subtopic_id)
    return context, {"rankings": rankings, "contexts": [context], **cut} if context is not None else {}


def make_context(
    grid: Grid, haystack: Haystack, unit: Unit, rank: Callable[[], Sequence[retrieve.Ranked]]
) -> tuple[Context | None, list[Ranking], Failed | None]:
    """Rank the documents and assemble the context of a unit. `rank` raises LookupError if the haystack lacks data that the
    retriever needs.

    Returns (context, rows of the ranking, None), or (None, [], failure).
    """
    try:
        ranking = rank()
        if not ranking and (why := grid.retrievers.nothing_found(unit.retriever, unit.subtopic_id)):
            raise NothingFound(why)
        whole = unit.retriever in grid.retrievers.unordered
        plan = ContextPlan(
            retriever=unit.retriever,
            ordering=unit.ordering,
            token_budget=None if whole else grid.spec.token_budget,
            seed=grid.spec.seed,
            whole=whole,
        )
        context = assemble(haystack, unit.subtopic_id, [document.number for document in ranking], plan)
        rows = [
            Ranking(
                haystack_id=unit.haystack_id,
                subtopic_id=unit.subtopic_id,
                retriever=unit.retriever,
                rank=place,
                number=int(document.number),
                document_id=haystack.documents[document.number - 1].document_id,
                score=float(document.score),
            )
            for place, document in enumerate(ranking, start=1)
        ]
        return context, rows, None
    # User-defined retrievers and orderings run here. Their exception becomes a failure row and stops no other row.
    except BaseException as error:  # noqa: BLE001
        return None, [], no_ranking(error)


async def summarize_cell(grid: Grid, cell: Cell, context: Context, ask: Ask) -> tuple[Summary | None, Truth]:
    """Write the cell's summary. Returns it with its reference. The summary is None after a failure, which is reported to
    `ask`."""
    spec = grid.spec.summarizers[cell.summarizer]
    async with ask.turn("summarize", spec.model, spec.label):
        haystack = await grid.haystacks.fetch(cell.unit.haystack_id)
        truth = truth_of(haystack, cell)
        ask_model = ask.of("summarize", output_tokens=lambda _: len(truth.insights) * TOKENS_A_BULLET)
        task = task_of(grid, cell, haystack, context)
        answer = await guard(
            "strategy_error",
            lambda: make_summarizer(spec.strategy).summarize(task, ask_model),
            spec.strategy_label if ask.planning else "",
        )
        outcome = read_summary(answer)
    if isinstance(outcome, Answer):
        raw = outcome.value
        if (given := grid.entries.models.given_answers.get(spec.model)) is not None:
            # A user's own pipeline knows documents by their ids; the haystack knows their numbers.
            numbers = ids_of([one.document_id for one in haystack.documents])
            listed = given.rag.get(grid.query_ids[cell.unit.haystack_id, cell.unit.subtopic_id])
            text = by_number(raw.text, numbers) if listed is None else listed.text(lambda one: _citation(one, numbers))
            raw = replace(raw, text=text)
        unit = cell.unit
        summary = Summary(
            cell_id=cell.cell_id,
            haystack_id=unit.haystack_id,
            subtopic_id=unit.subtopic_id,
            retriever=unit.retriever,
            ordering=unit.ordering,
            system=cell.system,
            model=spec.label,
            repeat=cell.repeat,
            context_id=context.context_id,
            key=raw.key,
            bullets=bullets_of(raw.text),
        )
        if spec.recite is not None and not ask.planning:
            documents = [(document.document_id, document.text) for document in haystack.documents]
            index = await asyncio.to_thread(grid.support_indexes.of, haystack.haystack_id, documents)
            summary = replace(summary, bullets=await asyncio.to_thread(index.recite, summary.bullets))
        return summary, truth
    ask.fail("context" if outcome.error == "context_window" else "summarize", outcome)
    return None, truth


def _citation(document_id: str, numbers: Mapping[str, int]) -> str:
    """Return the citation of a document by its number. If the haystack lacks the document, cite its id in a form that no
    number has."""
    if document_id in numbers:
        return f"[{numbers[document_id]}]"
    return f"[id:{document_id}]" if extract_citations(f"[{document_id}]") else f"[{document_id}]"


def task_of(grid: Grid, cell: Cell, haystack: Haystack, context: Context) -> Task:
    """Return the task of the cell's summarizer: query, documents shown, model, prompt and sampling."""
    spec = grid.spec.summarizers[cell.summarizer]
    subtopic = next(subtopic for subtopic in haystack.subtopics if subtopic.subtopic_id == cell.unit.subtopic_id)
    alike = cell.unit.retriever in grid.retrievers.unordered and cell.unit.ordering == "given"
    return Task(
        haystack=haystack,
        subtopic=subtopic,
        shown=shown_documents(haystack, context),
        model=spec.model,
        prompt=grid.entries.prompts.get(spec.prompt or "", ""),
        sampling=grid.entries.models.sampling(spec),
        sample=cell.repeat,
        lookup=lookup_of(cell, spec.model, system_key(cell.unit.retriever, cell.unit.ordering, spec.model)),
        token_budget=grid.spec.token_budget,
        reducer=Reducer(spec.reduce.model, grid.entries.models.sampling(spec.reduce)) if spec.reduce else None,
        # In document order, the whole haystack is the same prompt prefix for all queries.
        shares="documents" if alike and len(haystack.subtopics) > 1 else "prompt" if grid.spec.repeats > 1 else "nothing",
    )
