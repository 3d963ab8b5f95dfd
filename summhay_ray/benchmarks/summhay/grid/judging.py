"""Base class of the benchmarks whose judges read summaries: haystacks, prompts, and the identity of each judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from summhay_ray import judge, summarize
from summhay_ray.benchmark import Benchmark, Inputs, ModelSpec, RunStore, Stage, semantic_hash
from summhay_ray.benchmarks.summarizing import INPUT, SummarizerSpec, reduce_identity, strategy_name
from summhay_ray.benchmarks.summhay.grid.replay import Replay
from summhay_ray.benchmarks.summhay.haystacks.record import record_flaw
from summhay_ray.benchmarks.summhay.haystacks.sources import OUTLINES, Haystacks
from summhay_ray.benchmarks.summhay.spec import JudgeSpec, JudgingSpec, semantic_model

TOKENS_A_VERDICT = 20
"""Expected length of the verdict on one insight."""
STAGE = Stage("judge", output_tokens=TOKENS_A_VERDICT)

S = TypeVar("S", bound=JudgingSpec)


def prompts_of(entries: Iterable[ModelSpec], inputs: Inputs) -> Mapping[str, str]:
    """Path of each prompt file, as written in the spec -> its text; of a stored run, as it was then."""
    if inputs.record is not None:
        kept: Mapping[str, str] = inputs.record["prompts"]
        return kept
    return {entry.prompt: inputs.text(entry.prompt) for entry in entries if entry.prompt}


class Judging(Benchmark[S]):
    """A benchmark with judges of summaries."""

    haystacks: Haystacks
    """The haystacks, loaded on demand."""
    prompts: Mapping[str, str]
    """Path of a prompt file, as written in the spec -> its text."""
    recorded: ClassVar[Sequence[str]]
    """The fields that a run's record must have."""

    @property
    def own_models(self) -> Sequence[Any]:  # type: ignore[override]
        """See `Benchmark`: `replay/` answers from the run's haystacks."""
        return (lambda: Replay(self.haystacks.file),)

    @classmethod
    def record_flaw(cls, record: Mapping[str, Any]) -> str:
        return record_flaw(record, cls.recorded)

    @classmethod
    def objects(cls, run: RunStore) -> Iterable[tuple[str, str]]:
        """See `Workload`: the haystacks, their outlines, and the files of given answers."""
        yield from super().objects(run)
        record = run.record
        yield from ((OUTLINES, record[OUTLINES]) for _ in range(OUTLINES in record))
        yield from (("haystack", entry["object"]) for entry in record["haystacks"])
        yield from ((INPUT, digest) for digest in record.get("answers", {}).values())

    def semantic(self, model: ModelSpec) -> dict[str, Any]:
        """What identifies a summarizer or judge: model, parameters, prompt, and the code of a user-defined strategy."""
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
        own = {**semantic_model(model, identity), **self.models.revision(model.model), "code": self.inputs.code(code)}
        return {**own, **reduce_identity(self, model)} if isinstance(model, SummarizerSpec) else own

    def identity_of(self, judging: JudgeSpec) -> str:
        """sha256 (hex) of `semantic`: equal for judges whose judgments are interchangeable."""
        return semantic_hash(self.semantic(judging))

    def named_judges(self) -> list[list[str]]:
        """[label, identity] of every judge, as stored in a run's record."""
        return [[one.label, self.identity_of(one)] for one in self.spec.judges]

    def insight_counts(self) -> dict[tuple[str, str], int]:
        """(haystack_id, subtopic_id) -> the number of the subtopic's insights."""
        return {
            (source.haystack_id, subtopic.subtopic_id): n
            for source in self.haystacks.outlines
            for subtopic, n in zip(source.subtopics, source.n_insights, strict=True)
        }

    def prompt_of(self, model: ModelSpec) -> str:
        """The text of the model's prompt file; empty for the built-in prompt."""
        return self.prompts[model.prompt] if model.prompt else ""
