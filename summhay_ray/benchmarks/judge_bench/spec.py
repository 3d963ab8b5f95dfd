"""Which judges `judge-bench` measures, and how their models are reached; asks nothing.

A name is one of the spec's judges by its label or by `entry_name`, or what `judge.parse_name` reads; a model in a name is asked
as the spec's judge of that label or model says, else with a spec's defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from summhay_ray import judge
from summhay_ray.benchmark import SpecError
from summhay_ray.benchmarks.summhay.scores import asked_name
from summhay_ray.benchmarks.summhay.spec import Judge, JudgeSpec, JudgingSpec, try_judge
from summhay_ray.engine import REACH
from summhay_ray.judge import JudgeSettings, Named
from summhay_ray.llm import Limits, ModelSettings, Unpriced, is_local
from summhay_ray.local_models import check_model
from summhay_ray.plugins import code_identity, unknown

ELSEWHERE = ("haystacks", "retrievers", "orderings", "summarizers", "token_budget", "repeats")
"""Fields of a run's spec that a bench has no use for."""


class JudgeBenchSpec(JudgingSpec):
    """Judges to measure on a file of annotated summaries."""

    kind: str = Field(default="judge_bench", description="the benchmark")
    name: str = Field(default="judge-bench", min_length=1, description="for people; not part of the run's identity")
    file: str = Field(min_length=1, description="annotated summaries, as SummHay released them")
    names: list[str] = Field(default=[], description="judges to measure; else the file's own predictions and offline")
    judges: list[Judge] = Field(default=[], description="how models are reached and asked")
    held_out: bool = Field(default=False, description="the free judge is fitted on the file's other topics")


@dataclass(frozen=True, slots=True)
class BenchJudge:
    """A judge to measure: `name` as the person wrote it, a spec's judge as `entry_name` has it; and its parts."""

    name: str
    named: Named
    entry: JudgeSpec | None = None
    """The spec's judge of that label, where there is one: it says how its model is asked."""


@dataclass(frozen=True)
class BenchSpec:
    """All judges to measure, with everything that asking them needs."""

    judges: tuple[BenchJudge, ...]
    spec: JudgeBenchSpec
    prompts: Mapping[str, str]
    """Path as the spec writes it -> text."""
    revision_of: Callable[[str], Mapping[str, Any]]
    """Local model -> the sampling parameter that tells its revisions apart."""

    def asked(self, one: BenchJudge, leaf: Named) -> tuple[str, JudgeSettings]:
        """(strategy, settings) of a part that is asked."""
        model, strategy = judge.strategy_of(leaf)
        entry = one.entry or self._entry(model)
        if entry.extract is not None:
            raise SpecError(f"judge-bench: {entry.label}: people judged whole summaries; leave `extract` out")
        if one.entry is not None and leaf.kind == "model":
            strategy = judge.parse_strategy(one.entry.strategy).base
        prompt = self.prompts[entry.prompt] if entry.prompt else ""
        return strategy, JudgeSettings(
            model=entry.model, prompt=prompt, sampling={**entry.sampling(), **self.revision_of(entry.model)}
        )

    def identity(self, one: BenchJudge, leaf: Named) -> list[Any]:
        """What makes a part the one that it is, as JSON: model, parameters, prompt, a person's own code."""
        strategy, settings = self.asked(one, leaf)
        prompt = judge.prompt_identity(settings.prompt, strategy)
        return [strategy, settings.model, prompt, dict(settings.sampling), code_identity(strategy)]

    def _entry(self, model: str) -> JudgeSpec:
        entries = self.spec.judges
        found = (one for field in ("label", "model") for one in entries if getattr(one, field) == model)
        return next(found, None) or JudgeSpec(model=model)

    def settings(self) -> dict[str, ModelSettings]:
        """Model -> how to reach it and what it costs, for every model that may be asked. Raises SpecError without a price."""
        found: dict[str, ModelSettings] = {}
        asked = [self.asked(one, leaf)[1].model for one in self.judges for leaf in leaves(one.named) if is_asked(leaf)]
        code = any(leaf.kind == "code" for one in self.judges for leaf in leaves(one.named))
        for model in dict.fromkeys([*asked, *([entry.model for entry in self.spec.judges] if code else [])]):
            limits = self.spec.limits.get(model)
            reach = self._entry(model).model_dump(include=set(REACH))
            try:
                found[model] = ModelSettings.written(model, reach, Limits(**limits.model_dump()) if limits else Limits())
            except Unpriced as error:
                raise SpecError(f"judge-bench: {error}; a spec's entry is given with --spec FILE") from error
        return found

    def content(self) -> list[dict[str, Any]]:
        """What makes these judges these judges, for the identity of the bench."""
        return [
            {"judge": one.named.text, "asked": [self.identity(one, leaf) for leaf in leaves(one.named) if is_asked(leaf)]}
            for one in self.judges
        ]


def leaves(named: Named) -> Iterator[Named]:
    """The judges that a name is made of: no blend and no cascade among them."""
    if named.kind in ("blend", "cascade"):
        for part in named.parts:
            yield from leaves(part)
    else:
        yield named


def is_asked(leaf: Named) -> bool:
    """Whether a part may make calls."""
    return leaf.kind not in ("stored", "offline") and not is_free(leaf)


def is_free(leaf: Named) -> bool:
    """Whether a part is the free judge, which needs no gateway."""
    return leaf.kind == "offline" or (leaf.kind == "per_summary" and leaf.parts[0].kind == "offline")


def rates_together(one: BenchJudge) -> bool:
    """Whether the free judge, where it stands alone, sees all insights of a summary at once."""
    return one.entry is None or one.named.kind != "offline" or judge.parse_strategy(one.entry.strategy).base != "per_insight"


def read_judges(
    spec: JudgeBenchSpec, prompts: Mapping[str, str], keys: Sequence[str], revision_of: Callable[[str], Mapping[str, Any]]
) -> BenchSpec:
    """The judges of the spec's names; with none, the stored predictions of these keys and the free judge.

    Raises SpecError, BadName, UnknownName, in one line, before anything is asked.
    """
    entries = {**{entry_name(one): one for one in spec.judges}, **{one.label: one for one in spec.judges}}
    wanted = list(dict.fromkeys(name.strip() for name in spec.names)) or [*(f"stored/{key}" for key in keys), "offline/judge"]
    judges = {one.name: one for one in (_judge(name, entries) for name in wanted)}
    found = BenchSpec(tuple(judges.values()), spec, prompts, revision_of)
    for one in found.judges:
        for leaf in leaves(one.named):
            _check(found, one, leaf, keys)
    return found


def entry_name(entry: JudgeSpec) -> str:
    """A spec's judge by its own name, else by its model and how that is asked: another way to ask it has another bias."""
    prompt = f" prompt {entry.prompt}" if entry.prompt else ""
    return asked_name(entry.model, entry.strategy) + prompt if entry.label == entry.model else entry.label


def _judge(name: str, entries: Mapping[str, JudgeSpec]) -> BenchJudge:
    entry = entries.get(name)
    if entry is None:
        return BenchJudge(name, judge.parse_name(name))
    name = entry_name(entry)
    strategy = judge.parse_strategy(entry.strategy)
    if entry.model == judge.OfflineJudge.name and strategy.base in ("per_insight", "per_summary"):
        # Its words are all that it reads: whatever the prompt, the answer is the same.
        return BenchJudge(name, judge.parse_name(entry.model), entry)
    kind = "code" if ":" in strategy.base else "model"
    named = Named(strategy.base if kind == "code" else entry.model, "code" if kind == "code" else "model")
    free = judge.parse_name("offline")
    if strategy.blend:
        named = Named(f"{name}: blend", "blend", (named, free))
    if strategy.share is not None:
        named = Named(f"{name}: cascade", "cascade", (free, named), strategy.share)
    return BenchJudge(name, named, entry)


def _check(spec: BenchSpec, one: BenchJudge, leaf: Named, keys: Sequence[str]) -> None:
    if leaf.kind == "stored":
        key = leaf.text.removeprefix("stored/")
        if key not in keys:
            raise unknown("stored prediction", key, keys) if keys else SpecError(f"{leaf.text}: the file stores no predictions")
    if is_asked(leaf):
        strategy, settings = spec.asked(one, leaf)
        try_judge(strategy)
        check_model(settings.model)
        if is_local(settings.model) and settings.model.startswith("replay/"):
            raise SpecError(f"judge {one.name!r}: replay/ answers for released haystacks alone; write stored/KEY here")
        if settings.prompt:
            judge.check_prompt(settings.prompt)
