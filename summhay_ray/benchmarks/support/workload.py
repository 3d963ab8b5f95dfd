"""The benchmark `support`: do the cited documents support the bullets? It needs no gold.

An item is an answer: a summary of a run, or a line of a file. The spec's judge compares its bullets with the documents that
they cite. The free judge compares them with all documents, to find supporting ones that are not cited.
"""

import asyncio
import functools
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from summhay_ray import benchmark
from summhay_ray.benchmarks.retrieval import StoredModels
from summhay_ray.benchmarks.summhay.haystacks.metadata import stored_metadata
from summhay_ray.benchmarks.summhay.results.judges import join_run
from summhay_ray.benchmarks.summhay.results.other_figures import absent_queries
from summhay_ray.benchmarks.support.answers import answers_of, cited_answers_json, read_answers, read_cited_answers
from summhay_ray.benchmarks.support.judging import STAGE, Case, Judging, Opinion, Opinions, Pair, free_opinion
from summhay_ray.benchmarks.support.report import by_query, scores, sections
from summhay_ray.benchmarks.support.spec import NLI, SupportSpec, named_judge, nli_models
from summhay_ray.benchmarks.support.tables import BULLETS, SUPPORTS, VOTES, BulletRow, SupportRow, SupportVote
from summhay_ray.citations import SUPPORT_REVISION, SUPPORTED, Cited, CitedDocuments, Supports, is_heading
from summhay_ray.encoders import check_model, resolve_name
from summhay_ray.errors import SpecError
from summhay_ray.extract import Nli
from summhay_ray.inputs import read_file
from summhay_ray.outcome import Answer, Malformed
from summhay_ray.records import SYSTEM_NAMES, CitedAnswer, CitedAnswers
from summhay_ray.text import semantic_hash

CITED_ANSWERS = "claims.json"
"""The input in which a run stores the texts that it judges, so that later changes of the judged run or files do not affect it."""
PLACES = "nli"
"""The field of a run's record with the folder or hub name of each NLI model."""
_LOCAL_IN_FLIGHT = 32


class SupportBench(benchmark.Benchmark[SupportSpec]):
    """Judges the citations of answers."""

    kind = "support"
    stages = (benchmark.Stage(STAGE, output_tokens=50, example='{"verdict": "supported", "evidence": ""}'),)
    tables = (SUPPORTS, BULLETS, VOTES)
    counted = benchmark.Counted("answers", SUPPORTS.name, prefix="u")
    record_fields: ClassVar[Mapping[str, Any]] = {**benchmark.Benchmark.record_fields, PLACES: dict[str, str] | None}

    def __init__(self, spec: SupportSpec, inputs: benchmark.Inputs) -> None:
        super().__init__(spec, inputs)
        if not inputs.settled:
            inputs.give(CITED_ANSWERS, self._read(spec, inputs))
        self.judged, self.unread = read_cited_answers(inputs.read(CITED_ANSWERS))
        self._corpora = {
            # The systems of a run cite documents by number, so `[2]` is the second document. The author of a file of answers
            # knows the documents by name, so there `[2]` may mean `2.txt`.
            name: CitedDocuments(documents, numbers_may_be_ids=bool(spec.answers))
            for name, documents in self.judged.documents.items()
        }
        self._lock = threading.Lock()
        self._judge = named_judge(spec.judge)
        named = nli_models(self._judge)
        places = {name: resolve_name(model, inputs.folder.absolute()) for name, model in named.items()}
        self.nli = {name: Nli(place) for name, place in (inputs.record or {}).get(PLACES, places).items()}
        for one in self.nli.values():
            one.rows = self._stored.rows
            if not inputs.settled:
                check_model(one.model)

    @staticmethod
    def _read(spec: SupportSpec, inputs: benchmark.Inputs) -> bytes:
        if spec.answers:
            folder = inputs.path(spec.documents) if spec.documents else None
            if folder is not None and not folder.is_dir():
                raise SpecError(f"spec: documents: {spec.documents!r} is a file; give the folder of the documents")
            try:
                text = read_file(inputs.path(spec.answers)).decode("utf-8-sig")
            except (OSError, UnicodeDecodeError) as error:
                raise SpecError(f"spec: answers: {spec.answers!r} cannot be read as UTF-8 text ({error})") from error
            return cited_answers_json(*read_answers(text, spec.answers, folder, spec.documents))
        if inputs.store is None:
            raise SpecError(f"spec: of: {spec.of!r} is a run of a store; give the store")
        run = inputs.store.run(spec.of).at()
        found = answers_of(run)
        if "haystacks" in run.record:
            # An answer to a query about an absent subject needs no support.
            absent = {*absent_queries(stored_metadata(run.store, run.record)).iter_rows()}
            answers = [one for one in found.answers if (one.haystack_id, one.query_id) not in absent]
            found = replace(found, answers=answers)
        if not found.answers:
            raise SpecError(f"spec: of: {run.run_id} holds no summary yet; run it first")
        return cited_answers_json(found)

    def identity(self) -> Any:
        """See `Workload`. Includes the judged texts, the judge, the version of the free judge, and the content of weights in
        folders."""
        found = super().identity()
        # A folder of weights is identified by its content, wherever it is.
        known = {name: f"{NLI}/{model.revision}" for name, model in self.nli.items() if model.revision}
        judge = re.sub(r"[^\s(),]+", lambda part: known.get(part[0], part[0]), self.spec.judge)
        return {**found, "spec": {**found["spec"], "judge": judge}, "free": SUPPORT_REVISION}

    # --- items ----------------------------------------------------------------------------------------------------------

    def items(self) -> Iterator[benchmark.Item]:
        for place, answer in sorted(enumerate(self.judged.answers), key=lambda one: one[1].haystack_id):
            cited = self._cited(answer)
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
            yield benchmark.Item(id_of(answer), data=data, source=answer.haystack_id, reads=answer.haystack_id, size=citations)

    def _cited(self, answer: CitedAnswer) -> list[Cited]:
        corpus = self._corpora[answer.haystack_id]
        return corpus.cited(answer.bullets) if answer.cited is None else [corpus.named(ids) for ids in answer.cited]

    async def _opinions(self, answer: CitedAnswer, ask: benchmark.Ask | None) -> tuple[Opinions, Judging]:
        """Return the judge's opinion on each citation. Without `ask`, only the models in this process are asked."""
        judging = Judging(self.spec, self.nli, await asyncio.to_thread(self._case, answer, ask), ask)
        cited = enumerate(self._cited(answer))
        pairs = [(bullet, number - 1) for bullet, one in cited for number in one.numbers]
        return await judging.judge(self._judge, pairs), judging

    def _case(self, answer: CitedAnswer, ask: benchmark.Ask | None) -> Case:
        corpus, free = self._corpora[answer.haystack_id], None
        if ask is None or not ask.planning:
            # One thread at a time: the first builds the index.
            with self._lock:
                free = corpus.support(answer.bullets)
        return Case(id_of(answer), corpus.plain(answer.bullets), corpus, free)

    def queues(self) -> Mapping[str, benchmark.Queue]:
        models = tuple(self.models.settings())
        return {"": benchmark.Queue(models, computes=not models, max_in_flight=None if models else _LOCAL_IN_FLIGHT)}

    async def answer(self, item: benchmark.Item, ask: benchmark.Ask) -> benchmark.Rows:
        """See `Workload`. Returns the rows of one answer, and reports a failure for each citation that is not judged."""
        answer = self.judged.answers[item.data["place"]]
        if answer.error:
            ask.fail(STAGE, Malformed("unfinished_thinking", answer.error))
            return {}
        opinions, judging = await self._opinions(answer, ask)
        corpus, free = judging.case.corpus, judging.case.free
        if free is None:
            return {}
        for (bullet, document), opinion in sorted(opinions.items()):
            if not isinstance(opinion, Answer):
                message = f"bullet {bullet + 1}, {corpus.documents[document][0]}: {opinion.message}"
                ask.fail(STAGE, replace(opinion, message=message))
        votes = []
        for vote in judging.votes:
            (bullet, document), said = vote.pair, vote.opinion
            where = (answer.haystack_id, answer.query_id, answer.system, bullet + 1, corpus.documents[document][0])
            votes.append(SupportVote(*where, vote.panel, vote.member, said.value, said.verdict, said.evidence, vote.tied))
        return {**rows_of(answer, corpus, self._cited(answer), opinions, free), VOTES.name: votes}

    @functools.cached_property
    def _stored(self) -> StoredModels:
        return StoredModels(self.inputs.store, self.spec)

    # --- results --------------------------------------------------------------------------------------------------------

    def score(self, tables: benchmark.Tables) -> benchmark.Tables:
        return scores(tables)

    def report(self, scores: benchmark.Tables) -> Sequence[benchmark.Section]:
        return sections(scores, self.spec.label, self.unread)

    def by_query(self, tables: benchmark.Tables) -> benchmark.ByQuery | None:
        return by_query(tables)

    def computations(self, items: Sequence[benchmark.Item], actors: int = 1) -> Sequence[Mapping[str, Any]]:
        """See `Workload`. Returns the answers of a haystack for an NLI model, divided among the actors."""
        by_haystack: dict[str, list[int]] = {}
        for item in items if self.nli else ():
            by_haystack.setdefault(item.source, []).append(item.data["place"])
        return [{"answers": some} for places in by_haystack.values() for n in range(actors) if (some := places[n::actors])]

    def compute(self, part: Mapping[str, Any]) -> Mapping[str, float]:
        """See `Workload`. Judges these answers with the models in this process only, and stores their numbers."""
        before = replace(self._stored.computed)
        for place in part["answers"]:
            asyncio.run(self._opinions(self.judged.answers[place], None))
        return self._stored.computed.since(before)

    def details(self, scores: benchmark.Tables) -> Mapping[str, Any]:
        return {"of": self.spec.of, "judge": self.spec.label, "unread": list(self.unread)}

    def cited_answers(self, run: benchmark.RunStore) -> CitedAnswers:
        return self.judged

    def places(self, run: benchmark.RunStore, item_ids: Any) -> Mapping[str, Mapping[str, str]]:
        wanted = set(item_ids)
        names = ("haystack_id", "query_id", "system", "label")
        return {item.id: {name: item.data[name] for name in names} for item in self.items() if item.id in wanted}

    def explain(self, run: benchmark.RunStore, key: str, compat: Any = "default") -> dict[str, Any]:
        """See `Workload`. `key` may also be QUERY_ID/SYSTEM, or QUERY_ID/SYSTEM/BULLET, which explains a bullet's verdict."""
        query, _, rest = key.partition("/")
        for item in self.items() if rest else ():
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

    def record(self, store: benchmark.Store) -> dict[str, Any]:
        """See `Workload`. Includes the folders of the NLI models, for workers on other machines."""
        return {**super().record(store), PLACES: {name: model.model for name, model in self.nli.items()}}

    def on_open(self, run: benchmark.RunStore) -> None:
        """See `Workload`. Adds this run to the judged run's list, so that the results of that run show its figures next to
        joint."""
        super().on_open(run)
        if self.spec.of:
            join_run(run.store.run(self.spec.of), "supports", run.run_id)


def id_of(answer: CitedAnswer) -> str:
    return semantic_hash([answer.haystack_id, answer.query_id, answer.system])[:16]


def rows_of(
    answer: CitedAnswer,
    corpus: CitedDocuments,
    cited: Sequence[Cited],
    opinions: Opinions,
    free: Supports,
    recited: Sequence[frozenset[int]] | None = None,
) -> dict[str, list[Any]]:
    """Return the rows of an answer. `recited`: the numbers of the documents that each bullet cites after the repair."""
    supports: list[SupportRow] = []
    bullets: list[BulletRow] = []
    names = {name: getattr(answer, name) for name in SYSTEM_NAMES[1:]}
    shown = None if answer.shown is None else {corpus.ids[name] for name in answer.shown if name in corpus.ids}
    for place, (text, one) in enumerate(zip(answer.bullets, cited, strict=True)):
        where = (answer.haystack_id, answer.query_id, answer.system, place + 1)
        own = set(one.numbers)
        heading = is_heading(text, one)
        # Find the documents that support the bullet by the free judge, but are not cited.
        values = [] if heading or free.foreign[place] else free.values[place]
        saying = {number for number, value in enumerate(values, start=1) if round(float(value), 4) >= SUPPORTED} - own
        after = None if recited is None else recited[place]
        others = saying if after is None else after - own
        verdicts: list[str] = []
        for number in sorted(own | others):
            pair: Pair = (place, number - 1)
            outcome = opinions[pair] if number in own else free_opinion(free, *pair)
            known = isinstance(outcome, Answer)
            given = outcome.value if isinstance(outcome, Answer) else Opinion(0.0, "")
            verdicts += [given.verdict if known else ""] if number in own else []
            supports.append(
                SupportRow(
                    *where,
                    document_id=corpus.documents[number - 1][0],
                    cited=number in own,
                    value=given.value if known else None,
                    verdict=given.verdict if known else "",
                    evidence=given.evidence,
                    judge=given.by,
                    recited=None if after is None else number in after,
                    **names,
                )
            )
        outside = () if shown is None else tuple(corpus.documents[number - 1][0] for number in one.numbers if number not in shown)
        bullets.append(
            BulletRow(
                *where,
                text=text,
                words=len(text.split()),
                heading=heading,
                cited=len(own),
                supported=None if "" in verdicts else verdicts.count("supported"),
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
