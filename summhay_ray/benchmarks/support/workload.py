"""The benchmark `support`: do the cited documents say what the bullets say? Judged without any gold.

An item is an answer: a summary of a run, or a line of a file. Its bullets are held against the documents that they cite, by the
judge of the spec; and against all documents by the free judge, which finds those that say it and are not cited.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from summhay_ray.benchmark import (
    Ask,
    Benchmark,
    ByQuery,
    CitedAnswer,
    Counted,
    Inputs,
    Item,
    Part,
    Queue,
    Reader,
    Rows,
    RunStore,
    Section,
    SpecError,
    Stage,
    Tables,
    semantic_hash,
    workload_of,
)
from summhay_ray.benchmarks.support.answers import claims_json, claims_of, read_answers
from summhay_ray.benchmarks.support.judging import STAGE, Case, Opinion, Opinions, Pair, free_opinion, make_support_judge
from summhay_ray.benchmarks.support.report import by_query, scores, sections
from summhay_ray.benchmarks.support.spec import SupportSpec, named_judge
from summhay_ray.benchmarks.support.tables import BULLETS, SUPPORTS, BulletRow, SupportRow
from summhay_ray.citations import SUPPORT_REVISION, SUPPORTED, Cited, CitedDocuments, Supports, is_heading, verdict_of
from summhay_ray.inputs import read_file
from summhay_ray.outcome import NoAnswer
from summhay_ray.records import SYSTEM_NAMES

CLAIMS = "claims.json"
"""The input in which a run keeps what it judges: a later change of the judged run, or of the files, does not touch it."""
_AT_ONCE = 32


class SupportBenchReader(Reader["SupportBench"]):
    def details(self, scores: Tables) -> Mapping[str, Any]:
        """See `Reader`."""
        return {"of": self.workload.spec.of, "judge": self.workload.spec.label, "unread": list(self.workload.unread)}

    def places(self, run: RunStore, item_ids: Any) -> Mapping[str, Mapping[str, str]]:
        """See `Reader`: the system and the query."""
        wanted = set(item_ids)
        names = ("haystack_id", "query_id", "system", "label")
        return {item.id: {name: item.data[name] for name in names} for item in self.workload.items() if item.id in wanted}

    def explain(self, run: RunStore, key: str, compat: Any = "default") -> dict[str, Any]:
        """See `Reader`. `key` may also be QUERY_ID/SYSTEM or QUERY_ID/SYSTEM/BULLET: why does this bullet stand, or fall?"""
        query, _, rest = key.partition("/")
        for item in self.workload.items() if rest else ():
            called = next((name for name in (item.data["system"], item.data["label"]) if f"{rest}/".startswith(f"{name}/")), None)
            if item.data["query_id"] != query or called is None:
                continue
            bullet = rest.removeprefix(called).strip("/")
            if bullet and not bullet.isdecimal():
                continue
            found = super().explain(run, item.id, compat)
            rows = {
                name: [row for row in of if not bullet or row.get("bullet", int(bullet)) == int(bullet)]
                for name, of in found["rows"].items()
            }
            return {**found, "rows": rows}
        return super().explain(run, key, compat)


class SupportBench(Benchmark[SupportSpec]):
    """Judges the citations of answers."""

    kind = "support"
    stages = (Stage(STAGE, output_tokens=50, example='{"verdict": "supported", "evidence": ""}'),)
    tables = (SUPPORTS, BULLETS)
    counted = Counted("answers", SUPPORTS.name, prefix="u")
    reader = Part(SupportBenchReader)

    def __init__(self, spec: SupportSpec, inputs: Inputs) -> None:
        super().__init__(spec, inputs)
        if not inputs.settled:
            inputs.give(CLAIMS, self._read(spec, inputs))
        self.judged, self.unread = claims_of(inputs.read(CLAIMS))
        self._corpora = {name: CitedDocuments(documents) for name, documents in self.judged.documents.items()}
        self._lock = threading.Lock()
        self._judge = make_support_judge(named_judge(spec.judge), spec)

    @staticmethod
    def _read(spec: SupportSpec, inputs: Inputs) -> bytes:
        if spec.answers:
            folder = inputs.path(spec.documents)
            if not folder.is_dir():
                raise SpecError(f"spec: documents: {spec.documents!r} is a file; give the folder of the documents")
            try:
                text = read_file(inputs.path(spec.answers)).decode("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise SpecError(f"spec: answers: {spec.answers!r} cannot be read as UTF-8 text ({error})") from error
            return claims_json(*read_answers(text, spec.answers, folder, spec.documents))
        if inputs.store is None:
            raise SpecError(f"spec: of: {spec.of!r} is a run of a store; give the store")
        run = inputs.store.run(spec.of).at()
        workload = workload_of(run)
        if not isinstance(workload, Benchmark):
            raise SpecError(f"spec: of: {run.run_id} is of kind {run.record['kind']}, which holds no answers")
        found = workload.reader.claims(run)
        if not found.answers:
            raise SpecError(f"spec: of: {run.run_id} holds no summary yet; run it first")
        return claims_json(found)

    def identity(self) -> Any:
        """See `Workload`: what is judged, by whom, and by which free judge."""
        return {**super().identity(), "free": SUPPORT_REVISION}

    # --- items ----------------------------------------------------------------------------------------------------------

    def items(self) -> Iterator[Item]:
        """See `Workload`: the answers, haystack by haystack."""
        for place, answer in sorted(enumerate(self.judged.answers), key=lambda one: one[1].haystack_id):
            cited = self.cited(answer)
            key = semantic_hash([answer.haystack_id, answer.query_id, answer.system])[:16]
            citations = sum(len(one.numbers) for one in cited)
            data = {
                "place": place,
                "haystack_id": answer.haystack_id,
                "query_id": answer.query_id,
                "system": answer.system,
                "label": answer.label,
                "bullets": len(answer.bullets),
                "citations": citations,
            }
            yield Item(key, data=data, source=answer.haystack_id, reads=answer.haystack_id, size=citations)

    def cited(self, answer: CitedAnswer) -> list[Cited]:
        """The citations of each bullet."""
        return self._corpora[answer.haystack_id].cited(answer.bullets)

    def _support(self, corpus: CitedDocuments, bullets: Sequence[str]) -> Supports:
        # One thread at a time: the first one makes the index.
        with self._lock:
            return corpus.support(bullets)

    def queues(self) -> Mapping[str, Queue]:
        """See `Workload`: one queue, of all models."""
        models = tuple(self.models.settings())
        return {"": Queue(models, computes=not models, at_once=None if models else _AT_ONCE)}

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """See `Workload`: the rows of one answer, and a failure for each citation that was not judged."""
        answer = self.judged.answers[item.data["place"]]
        corpus = self._corpora[answer.haystack_id]
        cited = self.cited(answer)
        pairs = [(bullet, number - 1) for bullet, one in enumerate(cited) for number in one.numbers]
        free = None if ask.planning else await asyncio.to_thread(self._support, corpus, answer.bullets)
        case = Case(item.id, corpus.plain(answer.bullets), corpus.documents, free)
        opinions = await self._judge.judge(case, pairs, ask)
        if free is None:
            return {}
        for (bullet, document), opinion in sorted(opinions.items()):
            if not isinstance(opinion, Opinion):
                where = f"bullet {bullet + 1}, {corpus.documents[document][0]}"
                ask.fail(STAGE, replace(opinion, message=f"{where}: {opinion.message}"))
        return rows_of(answer, corpus, cited, opinions, free)

    # --- results --------------------------------------------------------------------------------------------------------

    def score(self, tables: Tables) -> Tables:
        """See `Workload`."""
        return scores(tables, self.spec.seed)

    def report(self, scores: Tables) -> Sequence[Section]:
        """See `Workload`."""
        return sections(scores, self.spec.label, self.unread)

    def by_query(self, tables: Tables) -> ByQuery | None:
        """See `Workload`."""
        return by_query(tables)


def rows_of(
    answer: CitedAnswer,
    corpus: CitedDocuments,
    cited: Sequence[Cited],
    opinions: Opinions,
    free: Supports,
    recited: Sequence[frozenset[int]] | None = None,
) -> dict[str, list[Any]]:
    """The rows of an answer. `recited`: the numbers of the documents that each bullet cites after a repair."""
    supports: list[SupportRow] = []
    bullets: list[BulletRow] = []
    names = {name: getattr(answer, name) for name in SYSTEM_NAMES[1:]}
    shown = None if answer.shown is None else {corpus.ids[name] for name in answer.shown if name in corpus.ids}
    for place, (text, one) in enumerate(zip(answer.bullets, cited, strict=True)):
        where = (answer.haystack_id, answer.query_id, answer.system, place + 1)
        own = set(one.numbers)
        heading = is_heading(text, one)
        saying = set() if heading else {number + 1 for number in _saying(free, place)} - own
        after = None if recited is None else recited[place]
        others = saying if after is None else after - own
        values = []
        for number in sorted(own | others):
            pair: Pair = (place, number - 1)
            opinion: Opinion | NoAnswer | None = opinions.get(pair) if number in own else free_opinion(free, *pair)
            known = isinstance(opinion, Opinion)
            given = opinion if isinstance(opinion, Opinion) else Opinion(0.0, "")
            values += [given.value if known else None] if number in own else []
            supports.append(
                SupportRow(
                    *where,
                    document_id=corpus.documents[number - 1][0],
                    cited=number in own,
                    value=given.value if known else None,
                    verdict=verdict_of(given.value) if known else "",
                    evidence=given.evidence,
                    judge=given.by,
                    recited=None if after is None else number in after,
                    **names,
                )
            )
        judged = [value for value in values if value is not None]
        outside = () if shown is None else tuple(corpus.documents[number - 1][0] for number in one.numbers if number not in shown)
        bullets.append(
            BulletRow(
                *where,
                text=text,
                words=len(text.split()),
                heading=heading,
                cited=len(own),
                supported=None if len(judged) < len(values) else sum(value >= SUPPORTED for value in judged),
                uncited=len(saying),
                other_language=free.foreign[place],
                out_of_range=one.out_of_range,
                not_shown=outside,
                ranges=one.ranges,
                by_id=one.by_id,
                unreadable=one.unreadable,
            )
        )
    return {SUPPORTS.name: supports, BULLETS.name: bullets}


def _saying(free: Supports, bullet: int) -> list[int]:
    """The documents that say a bullet, by the free judge."""
    return (
        []
        if free.foreign[bullet]
        else [place for place, value in enumerate(free.values[bullet]) if round(float(value), 4) >= SUPPORTED]
    )
