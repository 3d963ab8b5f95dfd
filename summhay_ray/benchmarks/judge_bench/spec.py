"""The judges that `judge-bench` measures, and how to reach their models. This module makes no call.

A judge's name is the label or the `entry_name` of one of the spec's judges, or a name that `judge.parse_name` reads. A model in
such a name uses the settings of the spec's judge with that label or model; if there is none, it uses the defaults of a spec.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from summhay_ray import judge
from summhay_ray.benchmarks.summhay.spec import Judge, JudgeSpec, JudgingSpec, try_judge
from summhay_ray.errors import SpecError
from summhay_ray.judge import JudgeSettings, Named
from summhay_ray.local_models import check_model
from summhay_ray.plugins import code_identity, unknown

ELSEWHERE = ("haystacks", "retrievers", "orderings", "summarizers", "token_budget", "repeats")
"""Fields of a run's spec that judge-bench ignores."""


class JudgeBenchSpec(JudgingSpec):
    """Judges to measure on a file of annotated summaries."""

    kind: str = Field(default="judge_bench", description="the benchmark")
    name: str = Field(default="judge-bench", min_length=1, description="a name for people; not part of the run's identity")
    file: str = Field(min_length=1, description="annotated summaries, as SummHay released them")
    names: list[str] = Field(default=[], description="judges to measure; if empty, the file's stored predictions and offline")
    judges: list[Judge] = Field(default=[], description="how to reach and ask models")
    held_out: bool = Field(default=False, description="fit the free judge on the file's other topics")


@dataclass(frozen=True, slots=True)
class BenchJudge:
    """A judge to measure. `name`: as the user wrote it, or the `entry_name` of a spec's judge. `named`: its parsed parts."""

    name: str
    named: Named
    entry: JudgeSpec | None = None
    """The spec's judge of that name, if there is one, with the settings of its model."""


@dataclass(frozen=True)
class BenchSpec:
    """All judges to measure, with everything needed to ask them."""

    judges: tuple[BenchJudge, ...]
    spec: JudgeBenchSpec
    prompts: Mapping[str, str]
    """Path in the spec -> text of the prompt."""
    revision_of: Callable[[str], Mapping[str, Any]]
    """Maps a local model to the sampling parameter that distinguishes its revisions."""

    def settings_of(self, bench_judge: BenchJudge, leaf: Named) -> tuple[JudgeSpec, JudgeSettings]:
        entry = self.spec.part(bench_judge.entry, leaf) if bench_judge.entry else self.spec.entry_of(leaf)
        if entry.extract is not None:
            raise SpecError(f"judge-bench: {entry.label}: people judged whole summaries; leave `extract` out")
        prompt = self.prompts[entry.prompt] if entry.prompt else ""
        sampling = {**entry.sampling(), **self.revision_of(entry.model)}
        return entry, JudgeSettings(entry.model, prompt, sampling, sample=leaf.sample)

    def identity(self, bench_judge: BenchJudge, leaf: Named) -> list[Any]:
        """Return, as JSON, everything that affects a part's verdicts: strategy, model, prompt, parameters, user code."""
        entry, settings = self.settings_of(bench_judge, leaf)
        prompt = judge.prompt_identity(settings.prompt, entry.strategy)
        sample = [leaf.sample] if leaf.sample else []
        return [entry.strategy, settings.model, prompt, dict(settings.sampling), code_identity(entry.strategy), *sample]


def is_asked(leaf: Named) -> bool:
    return leaf.kind != "stored" and not is_free(leaf)


def is_free(leaf: Named) -> bool:
    """Return whether a part is the free judge, which needs no gateway."""
    return leaf.kind == "offline" or leaf.text == "per_insight(offline)"


def read_judges(
    spec: JudgeBenchSpec, prompts: Mapping[str, str], keys: Sequence[str], revision_of: Callable[[str], Mapping[str, Any]]
) -> BenchSpec:
    """Read the judges named in the spec. By default these are the stored predictions (`keys`) and the free judge. Raises
    SpecError, BadName, UnknownName."""
    entries = {**{entry_name(entry): entry for entry in spec.judges}, **{entry.label: entry for entry in spec.judges}}
    wanted = list(dict.fromkeys(name.strip() for name in spec.names)) or [*(f"stored/{key}" for key in keys), "offline/judge"]
    judges: dict[str, BenchJudge] = {}
    for name in wanted:
        entry = entries.get(name)
        # The offline judge ignores the prompt.
        found = BenchJudge(entry_name(entry), entry.named, entry) if entry else BenchJudge(name, judge.parse_name(name))
        judges[found.name] = found
    read = BenchSpec(tuple(judges.values()), spec, prompts, revision_of)
    for bench_judge, leaf in [(one, leaf) for one in read.judges for leaf in one.named.leaves()]:
        if leaf.kind == "stored" and (key := leaf.text.removeprefix("stored/")) not in keys:
            raise unknown("stored prediction", key, keys) if keys else SpecError(f"{leaf.text}: the file has no predictions")
        if is_asked(leaf):
            entry, settings = read.settings_of(bench_judge, leaf)
            try_judge(entry.strategy)
            check_model(settings.model)
            if settings.model.startswith("replay/"):
                raise SpecError(f"judge {bench_judge.name!r}: replay/ is only for released haystacks; write stored/KEY here")
            if settings.prompt:
                judge.check_prompt(settings.prompt)
    return read


def entry_name(entry: JudgeSpec) -> str:
    """Return the label of a spec's judge. Without a label, return its model, strategy and prompt, since all of them affect
    its bias."""
    prompt = f" prompt {entry.prompt}" if entry.prompt else ""
    return judge.name_of(entry.model, entry.strategy).text + prompt if entry.label == entry.model else entry.label
