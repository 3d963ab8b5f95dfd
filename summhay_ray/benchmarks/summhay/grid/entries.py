"""The summarizers and judges of a run: their settings and identities; and checks of all that a spec names (paper, sections 4.3,
5.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from summhay_ray import judge, summarize
from summhay_ray.benchmark import Benchmark, Inputs, ModelSpec, RunModels, RunStore, Spec, Stage
from summhay_ray.benchmarks import retrieval
from summhay_ray.benchmarks.summarizing import INPUT, SummarizerSpec, reduce_identity, strategy_name
from summhay_ray.benchmarks.summhay.haystacks.metadata import FIELDS_OF_HAYSTACKS, HaystackMetadata, objects_of_haystacks
from summhay_ray.benchmarks.summhay.spec import CitingSpec, JudgeSpec, JudgingSpec, try_judge
from summhay_ray.errors import SpecError
from summhay_ray.local_models import check_model
from summhay_ray.plugins import UnknownName
from summhay_ray.text import semantic_hash

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
        """Path of each prompt file, as written in the spec -> its text, as stored for a stored run."""

    def prompt_of(self, model: ModelSpec) -> str:
        """The text of the model's prompt file; empty for the built-in prompt."""
        return self.prompts[model.prompt] if model.prompt else ""

    def semantic(self, model: ModelSpec) -> dict[str, Any]:
        """The identity of a summarizer or judge: model, parameters, prompt, user code of a strategy, and the revision of the
        support judge that repairs its citations."""
        if isinstance(model, JudgeSpec) and model.composed:
            parts = [self.semantic(self.spec.part(model, leaf)) for leaf in model.named.leaves()]
            return {"strategy": model.strategy, "parts": parts}
        prompt = self.prompt_of(model)
        if isinstance(model, JudgeSpec):
            identity, code = judge.prompt_identity(prompt, model.strategy), model.strategy
        else:
            assert isinstance(model, SummarizerSpec)
            code = strategy_name(model.strategy)
            identity = summarize.prompt_identity(prompt, steps=code != "direct" and ":" not in code)
        own = {**model.semantic(), "prompt": identity, **self.models.revision(model.model), "code": self._code(code)}
        if isinstance(model, CitingSpec) and model.recite is not None:
            # Imported here: SciPy takes a while to load, and few runs repair citations.
            from summhay_ray.citations import SUPPORT_REVISION

            own["support_judge"] = SUPPORT_REVISION
        return {**own, **reduce_identity(self.models, model)} if isinstance(model, SummarizerSpec) else own

    def identity_of(self, judging: JudgeSpec) -> str:
        """sha256 (hex) of `semantic`: equal for judges whose judgments are interchangeable."""
        return semantic_hash(self.semantic(judging))

    def recorded(self) -> dict[str, Any]:
        """The fields of a run's record: the prompts, and [label, identity] of every judge."""
        return {"prompts": dict(self.prompts), "judges": [[one.label, self.identity_of(one)] for one in self.spec.judges]}


FIELDS_OF_ENTRIES: Mapping[str, Any] = {"prompts": dict[str, str] | None, "judges": list[tuple[str, str]] | None}
"""The types of the fields of `Entries.recorded`; see `Workload.record_fields`."""


class OfHaystacks(Benchmark[S]):
    """A benchmark whose runs keep haystacks and judges in their record: summaries, made here or elsewhere, and a rejudge."""

    record_fields: ClassVar[Mapping[str, Any]] = {**Benchmark.record_fields, **FIELDS_OF_HAYSTACKS, **FIELDS_OF_ENTRIES}

    @classmethod
    def objects(cls, run: RunStore) -> Iterable[tuple[str, str]]:
        """See `Workload`: the haystacks, their metadata, and the files of given answers."""
        yield from super().objects(run)
        yield from objects_of_haystacks(run.record)
        yield from ((INPUT, digest) for digest in run.record.get("answers", {}).values())


def check_models(models: Sequence[ModelSpec], folder: Path = Path()) -> None:
    """Raises SpecError for a judge that cannot be made, or a local model that does not exist.

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
    """Raises SpecError for a prompt that lacks a placeholder, or a heading that offline/judge looks for."""
    for model in models:
        if not model.prompt:
            continue
        text = prompts[model.prompt]
        try:
            summarize.check_prompt(text) if isinstance(model, SummarizerSpec) else judge.check_prompt(text, model.strategy)
        except ValueError as error:
            raise SpecError(f"spec: prompt {model.prompt!r}: {error}") from error
        # Other models understand any wording; offline/judge finds its input by these headings.
        headings = ("Reference Insights:" if "per_summary" in model.strategy else "Reference Insight:", "Bullet Points:")
        absent = [heading for heading in headings if heading not in map(str.strip, text.splitlines())]
        if model.model == judge.OfflineJudge.name and absent:
            raise SpecError(f"spec: prompt {model.prompt!r}: offline/judge reads the section under a line {absent[0]!r}; add it")


def check_retrievers_of(retrievers: retrieval.Retrievers, metadata: Sequence[HaystackMetadata]) -> None:
    """Raises SpecError for a retriever that cannot be made, that has no documents, or whose released scores a haystack lacks."""
    bare = [one.name for one in metadata if not one.n_documents]
    if bare and (ranking := [one for one in retrievers if one not in ("none", "full")]):
        mend = "give the folder of those that its references name"
        raise SpecError(f"spec: documents: haystack {bare[0]!r} has no documents for retriever {ranking[0]!r}; {mend}")
    for index, entry in enumerate(retrievers.values()):
        with retrieval.naming(index):
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
