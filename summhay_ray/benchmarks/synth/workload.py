"""The workload of a synthesis: each item is a topic, and becomes a haystack (paper, section 3.2 and appendix A.1)."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from summhay_ray.benchmark import (
    Ask,
    Benchmark,
    Compat,
    Counted,
    Inputs,
    Item,
    LogIndex,
    Prepared,
    Queue,
    Results,
    Rows,
    RunStore,
    SpecError,
    Stage,
    StagePlan,
    Store,
    find_window,
    is_local,
    semantic_hash,
)
from summhay_ray.benchmarks.summhay import TABLES
from summhay_ray.benchmarks.summhay.grid.checks import check_models
from summhay_ray.benchmarks.summhay.haystacks.record import record_flaw
from summhay_ray.benchmarks.synth.made import MADE
from summhay_ray.benchmarks.synth.spec import GROUPS, StageModel, SynthSpec
from summhay_ray.benchmarks.synth.topics import TOPICS, alone, keep_topics, stored_topics, topic_from, topics_of
from summhay_ray.local_models import WRITER
from summhay_ray.synth import (
    Domain,
    Group,
    Job,
    Shape,
    Topic,
    check_placement,
    domain_from,
    is_english,
    load_domain,
    parse_domain,
)
from summhay_ray.text import count_tokens

SYSTEM = "synth"
"""The system under which a synthesis's items are counted."""
QUEUE = "topics"
TOPICS_AT_ONCE = (2, 16)
"""Topics at once in a worker: if all models are local, and at most if models are called."""
CALLS_PER_TOPIC = 8
"""Calls that a topic has in flight on average; only its documents are written concurrently."""
WORDS_AT_ONCE = 8_000_000
"""Most words of all documents in the making in a worker, which take about 50 bytes a word with their checks."""
TOPICS_A_SOURCE = 1
"""Topics that are prepared together."""
_ROOM = 4000
"""Tokens of a prompt beside its context."""
_IDENTITY = {"model", "max_tokens", "temperature", "seed", "revision", "extra"}
"""Settings of a model on which haystacks depend."""


class Synth(Benchmark[SynthSpec]):
    """Each topic becomes a haystack: an outline, documents, and their verification."""

    kind = "synth"
    prefix = "y"
    stages = tuple(Stage(group) for group in GROUPS)
    tables = (*TABLES, MADE)
    counted = Counted("topics")

    def __init__(self, spec: SynthSpec, inputs: Inputs) -> None:
        super().__init__(spec, inputs)
        if inputs.record is None:
            check_models(spec.model_entries())
            _check_lengths(self)
            _check_language(self)
            _check_windows(self)
            check_placement(self.shape, spec.difficulty.difficulty(), self.domain)

    @functools.cached_property
    def domain(self) -> Domain:
        """The domain that the spec names; of a stored run, as it was then."""
        name = self.spec.domain
        if self.inputs.record is not None:
            return domain_from(self.inputs.record["domain"], "stored domain")
        return parse_domain(self.inputs.text(name), name) if name.endswith((".yaml", ".yml")) else load_domain(name)

    @functools.cached_property
    def topics(self) -> Sequence[Topic]:
        """The topics in the spec's order. Workers of a run read none of them."""
        if self.inputs.record is None or self.inputs.store is None:
            return topics_of(self.spec, self.inputs)
        return [topic for _, topic in stored_topics(self.inputs.store, self.inputs.record)]

    @functools.cached_property
    def shape(self) -> Shape:
        """The size of each haystack."""
        spec = self.spec
        return Shape(spec.subtopics, spec.insights, spec.documents, spec.words or self.domain.words)

    def identity(self) -> Any:
        """See `Workload`. Topics, domain and prompts are identified by their content."""
        return {"kind": self.kind, **self._semantic_part, "topics": sorted(map(self.cell_id, self.topics))}

    def record(self, store: Store) -> dict[str, Any]:
        """See `Workload`. The topics are put into the store."""
        return {
            "spec": self.spec.model_dump(mode="json"),
            "domain": domain_json(self.domain, self.domain.prompts),
            TOPICS: keep_topics(store, ((self.cell_id(topic), topic) for topic in self.topics)),
        }

    @classmethod
    def record_flaw(cls, record: Mapping[str, Any]) -> str:
        return record_flaw(record, ("spec", "domain", "cells", "topics"))

    @classmethod
    def objects(cls, run: RunStore) -> Iterable[tuple[str, str]]:
        """See `Workload`: the topics, and the haystacks that were made."""
        yield TOPICS, run.record[TOPICS]
        yield from (("haystack", row.digest) for row in MADE.records(run.table(MADE.name)))

    @functools.cached_property
    def _semantic_part(self) -> dict[str, Any]:
        """Everything that a haystack depends on, beside its topic."""
        spec = self.spec
        return {
            "domain": domain_json(self.domain, self.domain.hashes()),
            "shape": asdict(self.shape),
            "difficulty": spec.difficulty.model_dump(),
            "models": {stage: self._identity(model) for stage, model in spec.models.used().items()},
            "license": spec.license,
            "seed": spec.seed,
        }

    def _identity(self, model: StageModel) -> dict[str, Any]:
        kept = {name: value for name, value in model.semantic().items() if name in _IDENTITY}
        return {**kept, **self.models.revision(model.model)}

    def cell_id(self, topic: Topic) -> str:
        """A hash (32 hex digits) of everything that the topic's haystack depends on; the spec's other topics do not count."""
        return semantic_hash({**self._semantic_part, "topic": asdict(alone(topic))})[:32]

    def job(self, topic: Topic) -> Job:
        """The job of a topic. Its haystack does not depend on the spec's other topics (see `alone`)."""
        spec = self.spec
        models = spec.models.used()
        # Endpoints are left out: the same answers give the same haystack.
        metadata = {"license": spec.license, "models": {stage: self._identity(model) for stage, model in models.items()}}
        difficulty = spec.difficulty.difficulty()
        return Job(self.cell_id(topic), alone(topic), self.domain, self.shape, difficulty, spec.seed, metadata)

    def sampling(self, stage: Group) -> dict[str, Any]:
        """The parameters of a stage's calls that determine its answers."""
        return self.models.sampling(self.spec.models.used()[stage])

    def items(self) -> Iterator[Item]:
        """See `Workload`: one item per topic."""
        for place, topic in enumerate(self.topics):
            yield Item(self.cell_id(topic), QUEUE, {"name": topic.name}, f"topics/{place // TOPICS_A_SOURCE}")

    def n_items(self) -> int:
        """The number of topics."""
        return len(self.topics)

    def queues(self) -> Mapping[str, Queue]:
        """See `Workload`. A worker has few topics at once, since each is a whole haystack in the making."""
        settings = self.models.settings()
        called = [model.limits.concurrency for model in settings.values() if not model.local]
        least, most = TOPICS_AT_ONCE
        wanted = max(least, min(most, 2 * max(called) // CALLS_PER_TOPIC)) if called else least
        fits = WORDS_AT_ONCE // max(1, self.shape.documents * self.shape.words)
        return {QUEUE: Queue(tuple(settings), computes=not called, at_once=max(1, min(wanted, fits)), together=1)}

    def prepare(self, source: str, items: Sequence[Item]) -> Prepared:
        """See `Workload`: the topics, with their context."""
        wanted = {item.id for item in items}
        first = int(source.rpartition("/")[2]) * TOPICS_A_SOURCE
        some = self.topics[first : first + TOPICS_A_SOURCE]
        return Prepared(own={cell: asdict(topic) for topic in some if (cell := self.cell_id(topic)) in wanted})

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """See `Workload`: the haystack of a topic, with its checks."""
        from summhay_ray.benchmarks.synth.topic import synthesize_topic

        return await synthesize_topic(self, item.id, topic_from(ask.prepared), ask)

    def bounds(self, run: RunStore | None, index: LogIndex, done: Collection[str]) -> Sequence[StagePlan]:
        """See `Workload`. The calls for a topic depend on the answers, so there are bounds."""
        from summhay_ray.benchmarks.synth.plan import bounds_of

        return bounds_of(self, run, index, done)

    def results(self, run: RunStore, compat: Compat = "default") -> Results:
        from summhay_ray.benchmarks.synth.run import results

        return replace(results(run), warnings=tuple(self.doubts()))

    def doubts(self) -> Sequence[str]:
        """See `Workload`: files of context that nobody reads."""
        spec = self.spec
        if spec.models.outline.model != WRITER or not (named := [name for topic in spec.topics for name in topic.context]):
            return ()
        mend = "name a model as models.outline, or make a haystack of the documents themselves with summhay mine FOLDER"
        return [f"topics: context: {', '.join(named)}: {WRITER} reads no context and invents everything; {mend}"]

    def explain(self, run: RunStore, key: str, compat: Compat = "default") -> dict[str, Any]:
        """See `Workload`. `key` may also be a haystack (NAME) or a document (NAME/ID)."""
        from summhay_ray.benchmarks.synth.explain import explain_synth

        return explain_synth(self, run, key)

    def places(self, run: RunStore, item_ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        wanted = set(item_ids)
        named = {self.cell_id(topic): topic.name for topic in self.topics}
        return {cell: {"system": SYSTEM, "haystack": named[cell], "subtopic_id": ""} for cell in wanted & named.keys()}

    def entries(self, store: Store, path: str) -> list[str]:
        """The haystacks made in the store, as entries for another spec. `path`: this spec's, for messages. Raises SpecError."""
        from summhay_ray.benchmarks.synth.entries import entries_of

        return entries_of(self, store, path)

    def export(self, run: RunStore, folder: Path, judge: str = "") -> list[Path]:
        """See `Workload`: as released JSON."""
        from summhay_ray.benchmarks.synth.run import export_made

        return export_made(run, folder)


def domain_json(domain: Domain, prompts: Mapping[Any, str]) -> dict[str, Any]:
    """A domain as JSON, with the given `prompts` (texts or hashes)."""
    values = {field.name: getattr(domain, field.name) for field in fields(domain)}
    return {**values, "participants": list(domain.participants), "prompts": dict(prompts)}


def _check_lengths(workload: Synth) -> None:
    """Raise SpecError if the writer's max_tokens would cut documents."""
    longest, words = workload.spec.models.write.max_tokens, workload.shape.words
    if longest < 2 * words:
        few = f"{longest} tokens are too few for documents of {words} words; give at least {2 * words}"
        raise SpecError(f"synth: models.write.max_tokens: {few}")


def _check_language(workload: Synth) -> None:
    """Raise SpecError if texts in another language than English would be written or checked offline."""
    language, models = workload.domain.language, workload.spec.models
    if is_english(language):
        return
    for stage, model in models.used().items():
        if is_local(model.model):
            does = "reads" if stage == "check" else "writes"
            raise SpecError(f"synth: models.{stage}: {WRITER} {does} English, and the domain is in {language}; name a model")
    if models.check is None:
        raise SpecError(f"synth: models.check: offline checks read English, and the domain is in {language}; name a model")


def _check_windows(workload: Synth) -> None:
    """Raise SpecError if the context of a topic does not fit into a model's window.

    The context is part of the prompts of the outline and, unless documents have chapters, of the documents.
    """
    stages: tuple[Group, ...] = ("outline",) if workload.domain.method == "chapters" else ("outline", "write")
    for stage in stages:
        model = workload.spec.models.used()[stage]
        window = find_window(model.model, model.context_window)
        room = (window or 0) - model.max_tokens - _ROOM
        if window is not None and room < 0:
            needed = f"max_tokens {model.max_tokens:,} and a prompt of about {_ROOM:,}"
            raise SpecError(f"synth: models.{stage}: the window of {window:,} tokens cannot hold {needed}; lower max_tokens")
        for topic in workload.topics if window is not None else ():
            tokens = sum(map(count_tokens, topic.context))
            if tokens > room:
                problem = f"the context of {topic.name!r} has {tokens:,} tokens; {model.model} has room for {room:,}"
                raise SpecError(f"synth: topics: {problem}; shorten it, or name another model for {stage}")
