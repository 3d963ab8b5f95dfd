"""The grid of a run: its queries, systems and cells, and the settings and identities of its summarizers and judges (paper,
sections 3.3, 4.3 and 5.1). Also checks the names that a spec contains.

A cell is haystack x query x retriever x ordering x summarizer x repeat. Ids depend only on content: the same spec and the same
files give the same cells and keys on every machine.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from summhay_ray import judge, summarize
from summhay_ray.benchmark import Benchmark, Inputs, Item, ModelSpec, RunModels, RunStore, Spec, Stage
from summhay_ray.benchmarks import retrieval
from summhay_ray.benchmarks.retrieval import Retrievers
from summhay_ray.benchmarks.summarizing import INPUT, REDUCE, SummarizerSpec, check_strategy, strategy_name
from summhay_ray.benchmarks.summhay.haystacks.metadata import FIELDS_OF_HAYSTACKS, HaystackMetadata, objects_of_haystacks
from summhay_ray.benchmarks.summhay.haystacks.sources import haystacks_of
from summhay_ray.benchmarks.summhay.spec import CitingSpec, JudgeSpec, JudgingSpec, SummhaySpec, try_judge
from summhay_ray.errors import SpecError
from summhay_ray.haystack import system_key
from summhay_ray.local_models import check_model
from summhay_ray.plugins import UnknownName
from summhay_ray.text import semantic_hash

if TYPE_CHECKING:
    from summhay_ray.citations import CitedCorpora

S = TypeVar("S", bound=Spec)

TOKENS_A_VERDICT = 20
"""Expected length of the verdict on one insight."""
STAGE = Stage("judge", output_tokens=TOKENS_A_VERDICT)


class Entries:
    """The summarizers and judges that a spec names."""

    def __init__(self, spec: JudgingSpec, inputs: Inputs, models: RunModels) -> None:
        self.spec, self.models, self._code = spec, models, inputs.code
        self.prompts: Mapping[str, str] = (
            {entry.prompt: inputs.text(entry.prompt) for entry in spec.model_entries() if entry.prompt}
            if inputs.record is None
            else inputs.record["prompts"]
        )
        """Path of each prompt file, as written in the spec -> its text. A stored run has the text that it stored."""

    def semantic(self, model: ModelSpec) -> dict[str, Any]:
        """Return the identity of a summarizer or judge: model, parameters, prompt, user code of a strategy, and the revision
        of the support judge that repairs its citations."""
        if isinstance(model, JudgeSpec) and model.composed:
            parts = [self.semantic(self.spec.part(model, leaf)) for leaf in model.named.leaves()]
            return {"strategy": model.strategy, "parts": parts}
        prompt = self.prompts.get(model.prompt or "", "")
        if isinstance(model, JudgeSpec):
            identity, code = judge.prompt_identity(prompt, model.strategy), model.strategy
        else:
            assert isinstance(model, SummarizerSpec)
            code = strategy_name(model.strategy)
            identity = summarize.prompt_identity(prompt, steps=code != "direct" and ":" not in code)
        own = {**model.semantic(), "prompt": identity, **self.models.revision(model.model), "code": self._code(code)}
        if isinstance(model, CitingSpec) and model.recite is not None:
            # Imported here because SciPy takes a while to load, and few runs repair citations.
            from summhay_ray.citations import SUPPORT_REVISION

            own["support_judge"] = SUPPORT_REVISION
        if isinstance(model, SummarizerSpec) and model.reduce is not None:
            own[REDUCE] = {**model.reduce.semantic(), **self.models.revision(model.reduce.model)}
        return own

    def record_fields(self) -> dict[str, Any]:
        """Return the fields of a run's record: the prompts, and the label and identity of every judge. The identity is the
        sha256 (hex) of `semantic`. It is equal for judges whose judgments are interchangeable."""
        judges = [[one.label, semantic_hash(self.semantic(one))] for one in self.spec.judges]
        return {"prompts": dict(self.prompts), "judges": judges}


FIELDS_OF_ENTRIES: Mapping[str, Any] = {"prompts": dict[str, str] | None, "judges": list[tuple[str, str]] | None}
"""The types of the fields of `Entries.record_fields`; see `Workload.record_fields`."""


class OfHaystacks(Benchmark[S]):
    """A benchmark whose runs have haystacks and judges in their record: runs of summaries, made here or elsewhere, and
    rejudges."""

    record_fields: ClassVar[Mapping[str, Any]] = {**Benchmark.record_fields, **FIELDS_OF_HAYSTACKS, **FIELDS_OF_ENTRIES}

    @classmethod
    def objects(cls, run: RunStore) -> Iterable[tuple[str, str]]:
        """See `Workload`. Yields the haystacks, their metadata, and the files of given answers."""
        yield from super().objects(run)
        yield from objects_of_haystacks(run.record)
        yield from ((INPUT, digest) for digest in run.record.get("answers", {}).values())


def check_models(models: Sequence[ModelSpec], folder: Path = Path()) -> None:
    """Raise SpecError for a judge that cannot be made, or a local model that does not exist.

    `folder`: the base of relative model paths.
    """
    try:
        for model in models:
            if isinstance(model, JudgeSpec):
                try_judge(model.strategy)
            check_model(model.model, folder)
    except (UnknownName, judge.BadName) as error:
        raise SpecError(f"spec: {error}") from error


def check_prompts(models: Sequence[SummarizerSpec | JudgeSpec], prompts: Mapping[str, str]) -> None:
    """Raise SpecError for a prompt that lacks a placeholder, or a heading that offline/judge looks for."""
    for model in models:
        if not model.prompt:
            continue
        text = prompts[model.prompt]
        try:
            summarize.check_prompt(text) if isinstance(model, SummarizerSpec) else judge.check_prompt(text, model.strategy)
        except ValueError as error:
            raise SpecError(f"spec: prompt {model.prompt!r}: {error}") from error
        # Other models understand any wording, but offline/judge finds its input by these headings.
        headings = ("Reference Insights:" if "per_summary" in model.strategy else "Reference Insight:", "Bullet Points:")
        absent = [heading for heading in headings if heading not in map(str.strip, text.splitlines())]
        if model.model == judge.OfflineJudge.name and absent:
            raise SpecError(f"spec: prompt {model.prompt!r}: offline/judge reads the section under a line {absent[0]!r}; add it")


def check_retrievers_of(retrievers: retrieval.Retrievers, metadata: Sequence[HaystackMetadata]) -> None:
    """Raise SpecError for a retriever that cannot be made, that has no documents, or for which a haystack lacks released
    scores."""
    bare = [one.name for one in metadata if not one.n_documents]
    if bare and (ranking := [one for one in retrievers if one not in ("none", "full")]):
        mend = "give the folder of those that its references name"
        raise SpecError(f"spec: documents: haystack {bare[0]!r} has no documents for retriever {ranking[0]!r}; {mend}")
    for index, entry in enumerate(retrievers.values()):
        with retrieval.located_errors(index):
            for part in retrieval.every([entry]):
                try:
                    retrieval.make_retriever(part, retrievers.seed, retrievers.run_file)
                except UnknownName:
                    if all(part in haystack.released for haystack in metadata):
                        raise UnknownName(f"no retriever is named {part!r}; did you mean 'released/{part}'?") from None
                    raise
                if not isinstance(part, str) or not part.startswith("released/"):
                    continue
                if lacking := [one for one in metadata if part.removeprefix("released/") not in one.released]:
                    has = ", ".join(lacking[0].released) or "none"
                    raise UnknownName(f"{lacking[0].name} holds no scores of {part!r}; it holds: {has}")


@dataclass(frozen=True, slots=True)
class Unit:
    """A query with the retriever and the ordering that make its context. Many cells share one unit."""

    haystack_id: str
    subtopic_id: str
    retriever: str
    ordering: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One summary of the run: a unit, a summarizer and a repeat."""

    cell_id: str
    unit: Unit
    summarizer: int
    """Index in the spec's summarizers."""
    repeat: int
    """Number of the repeated sample, from 0."""
    system: str
    """The system's name in the tables: retriever, ordering and summarizer."""

    @classmethod
    def of(cls, item: Item) -> Cell:
        """Return the cell that an item of the engine describes."""
        data = item.data
        return cls(item.id, Unit(*data["unit"]), data["summarizer"], data["repeat"], data["system"])


class Grid:
    """Every query of the haystacks with every system of the spec."""

    def __init__(self, spec: SummhaySpec, inputs: Inputs, models: RunModels) -> None:
        """Raises SpecError if a new run's spec has a name or a prompt that is unknown or unusable."""
        self.spec, self.inputs = spec, inputs
        self.retrievers = Retrievers(spec, inputs)
        self.haystacks = haystacks_of(spec.haystacks, inputs, spec.documents)
        self.entries = Entries(spec, inputs, models)
        if inputs.record is not None:
            return
        check_retrievers_of(self.retrievers, self.haystacks.metadata)
        try:
            for ordering in spec.orderings:
                summarize.find_ordering(ordering)
            for summarizer in spec.summarizers:
                check_strategy(summarizer.strategy)
        except (UnknownName, judge.BadName) as error:
            raise SpecError(f"spec: {error}") from error
        reducers = [one.reduce for one in spec.summarizers if one.reduce]
        check_models([*spec.parts(), *spec.summarizers, *reducers], inputs.folder)
        if self.entries.prompts:
            check_prompts([*spec.summarizers, *spec.parts()], self.entries.prompts)

    @functools.cached_property
    def systems(self) -> dict[tuple[str, str, int], str]:
        """(retriever, ordering, summarizer index) -> the system's key as in the release, or a longer key if two systems would
        share it."""
        labels = [summarizer.label for summarizer in self.spec.summarizers]
        short = {
            (retriever, ordering, index): system_key(retriever, ordering, label)
            for retriever in self.retrievers
            for ordering in self.orderings_of(retriever)
            for index, label in enumerate(labels)
        }
        shared = Counter(short.values())
        keys = {}
        for (retriever, ordering, index), key in short.items():
            long = [retriever, *([] if ordering == "given" else [ordering]), labels[index]]
            keys[retriever, ordering, index] = key if shared[key] == 1 else "_".join(long)
        return keys

    @functools.cached_property
    def query_ids(self) -> Mapping[tuple[str, str], str]:
        """(haystack_id, subtopic_id) -> the query's id in a file of answers, which is the subtopic's id.

        If several haystacks have this id, it is preceded by `NAME/` of its haystack, or by `HAYSTACK_ID/` if another haystack
        has the same name.
        """
        haystacks = self.haystacks.metadata
        listed = [(one, subtopic.subtopic_id) for one in haystacks for subtopic in one.subtopics]
        shared, names = Counter(subtopic for _, subtopic in listed), Counter(one.name for one in haystacks)
        return {
            (one.haystack_id, subtopic): (
                subtopic if shared[subtopic] == 1 else f"{one.name if names[one.name] == 1 else one.haystack_id}/{subtopic}"
            )
            for one, subtopic in listed
        }

    @functools.cached_property
    def support_indexes(self) -> CitedCorpora:
        """The free support judge, for summarizers whose citations are repaired."""
        # Imported here because SciPy takes a while to load, and few runs repair citations.
        from summhay_ray.citations import CitedCorpora

        return CitedCorpora()

    def orderings_of(self, retriever: str) -> Sequence[str]:
        """Return the orderings to use with a retriever. They apply to the whole haystack; a ranking keeps its order (paper,
        section 5.4)."""
        return self.spec.orderings if retriever in self.retrievers.unordered else ["given"]

    def named(self, ordering: str) -> str:
        """Return an ordering's name. A user-defined one (`module:function`) is followed by the identity of its code."""
        return f"{ordering} {self.inputs.code(ordering)}".rstrip()
