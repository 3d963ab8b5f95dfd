"""The workload of a synthesis: each item is a topic, which becomes a haystack (paper, section 3.2 and appendix A.1)."""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from summhay_ray import benchmark
from summhay_ray.benchmarks.summhay import TABLES
from summhay_ray.benchmarks.summhay.haystacks.sources import BY_GRAMMAR
from summhay_ray.benchmarks.synth.explain import explain_synth
from summhay_ray.benchmarks.synth.make_haystack import synthesize_topic
from summhay_ray.benchmarks.synth.recipe import Recipe, domain_json
from summhay_ray.benchmarks.synth.results import Haystacks, export_made, read_haystacks
from summhay_ray.benchmarks.synth.spec import GROUPS, SynthSpec
from summhay_ray.benchmarks.synth.topics import MADE, TOPICS, Made, made_by, topic_from
from summhay_ray.errors import SpecError
from summhay_ray.local_models import WRITER
from summhay_ray.metrics import Compat
from summhay_ray.synth import Topic, bounds

SYSTEM = "synth"
"""The system name under which a synthesis's items are counted."""
QUEUE = "topics"
TOPICS_AT_ONCE = (2, 16)
"""Number of topics in progress in a worker: if all models are local, and the maximum otherwise."""
CALLS_PER_TOPIC = 8
"""Mean number of calls that a topic has in flight. Only its documents are written concurrently."""
WORDS_AT_ONCE = 8_000_000
"""Maximum words of all unfinished documents in a worker. With their checks, they take about 50 bytes per word."""
TOPICS_A_SOURCE = 1
"""Number of topics prepared together."""


class Synth(benchmark.Benchmark[SynthSpec]):
    """Makes each topic into a haystack: an outline, documents, and their verification."""

    kind = "synth"
    stages = tuple(benchmark.Stage(group) for group in GROUPS)
    tables = (*TABLES, MADE)
    counted = benchmark.Counted("topics", prefix="y")
    record_fields: ClassVar[Mapping[str, Any]] = {**benchmark.Benchmark.record_fields, "domain": dict[str, Any], TOPICS: str}

    def __init__(self, spec: SynthSpec, inputs: benchmark.Inputs) -> None:
        super().__init__(spec, inputs)
        self.recipe = Recipe(self.spec, inputs, self.models)

    def identity(self) -> Any:
        return {"kind": self.kind, **self.recipe.semantic_part, "topics": sorted(map(self.recipe.cell_id, self.recipe.topics))}

    def items(self) -> Iterator[benchmark.Item]:
        for place, topic in enumerate(self.recipe.topics):
            yield benchmark.Item(self.recipe.cell_id(topic), QUEUE, {"name": topic.name}, f"topics/{place // TOPICS_A_SOURCE}")

    def n_items(self) -> int:
        return len(self.recipe.topics)

    def queues(self) -> Mapping[str, benchmark.Queue]:
        """See `Workload`. A worker has few topics in progress, since each is a whole haystack."""
        settings = self.models.settings()
        called = [model.limits.concurrency for model in settings.values() if not model.local]
        least, most = TOPICS_AT_ONCE
        wanted = max(least, min(most, 2 * max(called) // CALLS_PER_TOPIC)) if called else least
        fits = WORDS_AT_ONCE // max(1, self.recipe.shape.documents * self.recipe.shape.words)
        return {
            QUEUE: benchmark.Queue(tuple(settings), computes=not called, max_in_flight=max(1, min(wanted, fits)), batch_size=1)
        }

    def prepare(self, source: str, items: Sequence[benchmark.Item]) -> benchmark.Prepared:
        wanted = {item.id for item in items}
        first = int(source.rpartition("/")[2]) * TOPICS_A_SOURCE
        some = self.recipe.topics[first : first + TOPICS_A_SOURCE]
        return benchmark.Prepared(own={cell: asdict(topic) for topic in some if (cell := self.recipe.cell_id(topic)) in wanted})

    async def answer(self, item: benchmark.Item, ask: benchmark.Ask) -> benchmark.Rows:
        assert self.inputs.store is not None
        return await synthesize_topic(self.recipe, self.inputs.store, item.id, topic_from(ask.prepared), ask)

    def score(self, tables: benchmark.RunTables) -> Haystacks:
        return read_haystacks(tables.run)

    def report(self, scores: Haystacks) -> Sequence[benchmark.Section]:
        listed = {name: rows for name, rows in self.details(scores).items() if rows}
        frames = {name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in listed.items()}
        unit = pl.lit(None, pl.Int64).alias("n")
        return [benchmark.Section(name.capitalize(), table=frame.with_columns(unit)) for name, frame in frames.items()]

    def entries(self, store: benchmark.Store, path: str) -> list[str]:
        """Return the haystacks in the store, as entries for another spec, in this spec's order. Raises SpecError if one is
        missing.

        `path`: the path of this spec, for messages.
        """
        made: dict[str, Made] = {}
        tried: dict[str, bool] = {}
        if store.files.exists(f"runs/{self.run_id}/run.json"):
            run = store.run(self.run_id)
            made, tried = made_by(run), dict(self.finished_items(run).iter_rows())
        topics = self.recipe.topics
        missing = [cell for cell in map(self.recipe.cell_id, topics) if cell not in made]
        if not missing:
            return [haystack.entry for haystack in made.values()]
        synth = f"summhay synth {path} --store {store.uri}"
        failed = sum(not tried.get(cell, True) for cell in missing)
        if not failed:
            lack = f"{len(missing)} of its {len(topics)} haystacks are" if made else "its haystacks are"
            raise SpecError(f"{lack} not in the store {store.uri!r}; make them first: {synth}")
        # Resuming does not help: the same answers would fail again.
        look = f"summhay failures {self.run_id} --store {store.uri} says why"
        others = f", {len(missing) - failed} more are not made yet" if len(missing) > failed else ""
        again = f"reword or remove them (the others cost nothing again) or give another seed (all are new), then: {synth}"
        raise SpecError(
            f"{failed} of its {len(topics)} topics failed for good ({look}){others}; {again}; or list the finished ones by their "
            "`entry`, which the same command prints with --json"
        )

    def bounds(self, item: benchmark.Item) -> Mapping[str, tuple[benchmark.ModelSpec, Mapping[str, Mapping[str, int]]]]:
        """Return the least and the most calls for a topic, since their number depends on the answers. The least is a haystack
        without retries. The most is every retry that the domain allows, each after answers that cannot be parsed."""
        recipe, used = self.recipe, self.spec.models.by_stage()
        topic, difficulty = self._topics[item.id], recipe.difficulty
        bounded = bounds(topic, recipe.domain, recipe.shape, difficulty, "check" in used, used["write"].max_tokens)
        return {name: (model, asdict(bounded[name])) for name, model in used.items()}

    @functools.cached_property
    def _topics(self) -> Mapping[str, Topic]:
        return {self.recipe.cell_id(topic): topic for topic in self.recipe.topics}

    def warnings(self) -> Sequence[str]:
        spec = self.spec
        if spec.models.outline.model != WRITER or not (named := [name for topic in spec.topics for name in topic.context]):
            return ()
        mend = "name a model as models.outline, or make a haystack of the documents themselves with summhay mine FOLDER"
        return [f"topics: context: {', '.join(named)}: {WRITER} reads no context and invents everything; {mend}"]

    def details(self, scores: Haystacks) -> Mapping[str, Any]:
        made, failed = ([asdict(one) for one in listed] for listed in (scores.haystacks, scores.failed))
        return {"haystacks": made, "failed": failed, "files": []}

    def results(self, tables: benchmark.RunTables) -> benchmark.Results:
        """See `Workload`. Warns about unread context, and says whether templates or a model wrote the prose."""
        notes = (f"the prose is {BY_GRAMMAR}",) if self.spec.models.write.model == WRITER else ()
        return replace(super().results(tables), warnings=tuple(self.warnings()), notes=notes)

    def explain(self, run: benchmark.RunStore, key: str, compat: Compat = "default") -> dict[str, Any]:
        """See `Workload`. `key` may also be a haystack (NAME) or a document (NAME/ID)."""
        return explain_synth(self.recipe, run, key)

    def places(self, run: benchmark.RunStore, item_ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        wanted = set(item_ids)
        named = {self.recipe.cell_id(topic): topic.name for topic in self.recipe.topics}
        return {cell: {"system": SYSTEM, "haystack": named[cell], "subtopic_id": ""} for cell in wanted & named.keys()}

    def export(self, run: benchmark.RunStore, folder: Path, judge: str = "") -> list[Path]:
        return export_made(run, folder)

    def record(self, store: benchmark.Store) -> dict[str, Any]:
        topics = [{"cell_id": self.recipe.cell_id(topic), **asdict(topic)} for topic in self.recipe.topics]
        written = json.dumps(topics, ensure_ascii=True, separators=(",", ":"))
        return {
            "spec": self.spec.model_dump(mode="json"),
            "domain": domain_json(self.recipe.domain, self.recipe.domain.prompts),
            TOPICS: store.put_object(TOPICS, written.encode("ascii")),
        }

    @classmethod
    def objects(cls, run: benchmark.RunStore) -> Iterable[tuple[str, str]]:
        yield TOPICS, run.record[TOPICS]
        yield from (("haystack", row.digest) for row in MADE.records(run.table(MADE.name)))
