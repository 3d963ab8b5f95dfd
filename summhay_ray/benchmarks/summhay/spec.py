"""The spec of a SummHay run: haystacks, retrievers, orderings, summarizers, repeats and judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from summhay_ray import judge, plugins
from summhay_ray.benchmark import ModelSpec, Spec, Text
from summhay_ray.benchmarks.rating import ExtractSpec
from summhay_ray.benchmarks.retrieval import RetrieverEntry, check_retrievers, services
from summhay_ray.benchmarks.scripts import OfWordsSpec
from summhay_ray.benchmarks.summarizing import NoAnswers, Strategy, SummarizerSpec, cross_strategies, summarizer_entry
from summhay_ray.errors import UserError


def _judge(value: Any) -> Any:
    """Normalize a judge's entry. An expression such as `blend(MODEL,offline)`, or `module:Class`, becomes model and strategy."""
    entry = ModelSpec.entry(value)
    if not isinstance(entry, Mapping) or not isinstance(text := entry.get("model"), str):
        return entry
    try:
        # A user-defined judge is module:Class, but a model may have a similar name (`mistral:latest`).
        is_code = ":" in text and "/" not in text and not entry.get("api_base") and judge.parse_name(text).kind == "code"
        if not is_code and text != "offline" and "(" not in text:
            # A custom prompt is about one insight, unless the entry gives another strategy.
            given = entry.get("strategy", "per_insight" if entry.get("prompt") else judge.default_strategy(text))
            if isinstance(given, str):
                given = judge.parse_name(given).text if "(" in given else given.strip()
            return {**entry, "strategy": given}
        if "strategy" in entry:
            raise ValueError(f"{text} says already how the model is asked; leave `strategy` out")
        named = judge.parse_name(text)
        model, strategy = judge.strategy_of(named)
    except UserError as error:
        raise ValueError(str(error)) from error
    # Different spellings of the same judge get the same name.
    name = {} if strategy == judge.default_strategy(model) else {"name": named.text}
    return {**name, **entry, "model": model, "strategy": strategy}


def try_judge(strategy: str) -> None:
    """Raise UnknownName or BadName if a strategy's judge is unknown or cannot be made."""
    with plugins.own_code(f"judge {strategy!r} cannot be made", "its class is called without arguments"):
        judge.make_judge(strategy)


class JudgeSpec(ModelSpec):
    """A judge: a model and its strategy. A composed judge has its name as `strategy`."""

    answers: NoAnswers = Field(default=None, exclude=True)

    strategy: str = Field(
        default="per_insight", description="how to ask the model; or module:Class; default for offline/judge: per_summary"
    )
    max_tokens: int = Field(default=200, ge=1, description="longest answer, in tokens")
    repeats: int = Field(
        default=1,
        ge=1,
        le=1_000_000,
        description="number of times to ask; the majority and the mean count, and the judge's agreement with itself is reported",
    )
    extract: ExtractSpec | None = Field(
        default=None,
        description="show only the bullets that an insight needs, up to `tokens`; for a judge asked per insight",
    )

    LATER: ClassVar[frozenset[str]] = ModelSpec.LATER | {"extract", "repeats"}

    @property
    def named(self) -> judge.Named:
        """The judge's parsed name."""
        named = judge.name_of(self.model, self.strategy)
        return named if self.repeats == 1 else judge.repeated(named, self.repeats)

    @property
    def composed(self) -> bool:
        """Whether the judge is composed of others (`Named.composed`)."""
        return "(" in self.strategy

    def non_default_fields(self) -> list[str]:
        """The fields that differ from a judge's defaults, except the model."""
        fields = type(self).model_fields
        whose = ("model", "name", "strategy", "extract", "repeats")
        return [
            name
            for name, field in fields.items()
            if name not in whose and getattr(self, name) != field.get_default(call_default_factory=True, validated_data={})
        ]

    @field_validator("repeats")
    @classmethod
    def _can_repeat(cls, repeats: int, info: ValidationInfo) -> int:
        if repeats > 1 and "(" in (strategy := info.data.get("strategy", "")):
            raise ValueError(f"{strategy} is made of several judges; repeat one of them")
        return repeats

    @field_validator("extract")
    @classmethod
    def _asked_alone(cls, extract: ExtractSpec | None, info: ValidationInfo) -> ExtractSpec | None:
        strategy = info.data.get("strategy", "per_insight")
        if extract is not None and not judge.asks_alone(strategy):
            raise ValueError(f"{strategy} asks about all insights at once; write strategy: per_insight, or few_shot")
        return extract


Judge = Annotated[JudgeSpec, BeforeValidator(_judge, json_schema_input_type=Text | JudgeSpec)]


class JudgingSpec(Spec):
    """A spec with judges of summaries."""

    judges: list[Judge] = Field(
        default=[JudgeSpec(model="offline/judge", strategy=judge.default_strategy("offline/judge"))],
        min_length=1,
        description="the judges of every summary",
    )
    members: list[Judge] = Field(
        default=[],
        description="entries of judges that are only part of others (of a panel, blend or cascade)",
    )

    def part(self, entry: JudgeSpec, leaf: judge.Named) -> JudgeSpec:
        """Return the entry with the settings for a judge that is part of another. Both may be the same.

        The composed judge's settings hold for each of its models. Settings that it leaves open come from the model's own entry,
        if the spec has one under its name or the model's. The free judge ignores them.
        """
        if not entry.composed:
            return entry
        own = self.entry_of(leaf)
        model = {"model": entry.model} if leaf.kind == "code" else {}
        said = {} if own.model == judge.OfflineJudge.name else {name: getattr(entry, name) for name in entry.non_default_fields()}
        return own.model_copy(update={**said, **model, "repeats": 1})

    def entry_of(self, leaf: judge.Named) -> JudgeSpec:
        """Return the entry of a judge that is not composed: the listed entry of that name, else the settings of its model's
        entry."""
        model, strategy = judge.strategy_of(leaf)
        entries = [*self.judges, *self.members]
        listed = [one for field in ("name", "model") for one in entries if getattr(one, field) == model and not one.composed]
        own = listed[0] if listed else JudgeSpec(model=model)
        for whole in [] if listed else [one for one in entries if one.composed and one.model == model][:1]:
            own = own.model_copy(update={name: getattr(whole, name) for name in whole.non_default_fields()})
        if leaf.kind == "model" and own.name == model:
            return own
        extract = own.extract if judge.asks_alone(strategy) else None
        return own.model_copy(update={"name": "", "strategy": strategy, "extract": extract})

    def parts(self, judges: Sequence[JudgeSpec] | None = None) -> list[JudgeSpec]:
        """Return the entries of the single judges to ask for `judges` (by default all): a composed judge is replaced by its
        parts."""
        entries = self.judges if judges is None else judges
        return [self.part(one, leaf) for one in entries for leaf in one.named.leaves()]

    def model_entries(self) -> Sequence[ModelSpec]:
        return self.parts()


class CitingSpec(SummarizerSpec):
    """A summarizer whose bullets cite documents."""

    LATER: ClassVar[frozenset[str]] = SummarizerSpec.LATER | {"recite"}

    recite: Literal["offline"] | None = Field(
        default=None, description="offline: the free support judge repairs its citations; this makes a separate system"
    )


def _citing(value: Any) -> Any:
    """Give an entry whose citations are repaired a name that says so, unless it has a name."""
    entry = summarizer_entry(value)
    if isinstance(entry, Mapping) and entry.get("recite") and isinstance(model := entry.get("model"), str):
        return {"name": f"{model}+recite", **entry}
    return entry


Citing = Annotated[CitingSpec, BeforeValidator(_citing, json_schema_input_type=Text | CitingSpec)]


class SummhaySpec(JudgingSpec, OfWordsSpec):
    """A run: haystacks x queries x retrievers x orderings x summarizers x repeats. Every judge judges each summary."""

    kind: str = Field(default="summhay", description="the benchmark: its name, or module:Class for one of your own")
    haystacks: list[str] = Field(
        min_length=1,
        description="released JSON or nuggets files, relative to the spec's folder; sample/NAME, hub:OWNER/NAME or store/SHA256",
    )
    documents: str = Field(default="", description="the folder of the documents that files of nuggets refer to; empty: none")
    retrievers: list[RetrieverEntry] = Field(
        min_length=1, description="random, bm25, vector, oracle, full, none, released/NAME, {bm25: split}, {embed: MODEL}, ..."
    )
    orderings: list[str] = Field(default=["given"], min_length=1, description="for `full`: given, random, top, bottom, middle")
    k: list[Annotated[int, Field(ge=1)]] = Field(
        default=[1, 5, 10], description="cutoffs: numbers of top documents at which a ranking is measured"
    )
    token_budget: int = Field(default=15000, ge=1, description="maximum cl100k tokens of the retrieved documents")
    repeats: int = Field(default=1, ge=1, le=1_000_000, description="samples for each cell")
    strategies: list[Strategy] = Field(
        default=[], description="strategies for summarizers without one: each is asked with all of these; [] is [direct]"
    )
    summarizers: list[Citing] = Field(min_length=1, description="the summarizers")
    seed: int = Field(default=0, description="seed of random retrieval, random and middle orderings, and intervals")

    def model_entries(self) -> Sequence[ModelSpec]:
        """Every model of the spec, summarizers first."""
        return [*self.summarizers, *self.parts(), *services(self.retrievers).values()]

    _crossed = model_validator(mode="before")(cross_strategies)

    @model_validator(mode="after")
    def _names_differ(self) -> SummhaySpec:
        for field in ("haystacks", "orderings"):
            names = getattr(self, field)
            for name in names:
                if names.count(name) > 1:
                    raise ValueError(f"{field}: {name!r} is listed twice; remove one")
        check_retrievers(self.retrievers)
        return self
