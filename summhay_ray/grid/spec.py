"""The spec: the YAML that describes a run. Part of the grid room.

Unknown fields are refused with the nearest known name; every error is one line naming the file, the field and what was
expected. Which fields are semantic (they make the run's id) stands in `RunSpec.semantic`.
"""

from __future__ import annotations

import copy
import difflib
import json
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from summhay_ray import judge
from summhay_ray.grid.model_check import endpoint_flaw, flaw, reach_flaw, tier_flaw
from summhay_ray.grid.yaml_text import YamlError, load
from summhay_ray.problems import Problem


class SpecError(Problem):
    """The spec is not usable; the message is one line: where, what, how to mend it."""


class Strict(BaseModel):
    """A part of the spec: no unknown fields, no silent conversions, no infinite numbers, frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


Dollars = Annotated[float, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]


class PriceSpec(Strict):
    """US dollars a million tokens."""

    input_per_mtok: float = Field(ge=0)
    output_per_mtok: float = Field(ge=0)
    cached_input_per_mtok: float | None = Field(default=None, ge=0, description="read from the provider's cache")
    cache_write_per_mtok: float | None = Field(default=None, ge=0, description="written to the provider's cache")


def _price(value: Any) -> Any:
    return {"input_per_mtok": 0, "output_per_mtok": 0} if value == 0 and not isinstance(value, bool) else value


def model_entry(value: Any) -> Any:
    return {"model": value} if isinstance(value, str) else value


def _judge(value: Any) -> Any:
    """A judge's entry; `blend(MODEL,offline)` or `module:Class` becomes its model and strategy. Raises ValueError."""
    entry = model_entry(value)
    if not isinstance(entry, Mapping) or not isinstance(text := entry.get("model"), str):
        return entry
    if not is_expression(text) and not _is_code(text, entry):
        # A person's own prompt asks about one insight, unless the entry says more.
        return entry if entry.get("prompt") else {"strategy": judge.default_strategy(text), **entry}
    if "strategy" in entry:
        raise ValueError(f"{text} says already how the model is asked; leave `strategy` out")
    try:
        named = judge.parse_name(text)
        model, strategy = judge.strategy_of(named)
    except Problem as error:
        raise ValueError(str(error)) from error
    # One judge is one judge, however it is written.
    name = {} if strategy == judge.default_strategy(model) else {"name": named.text}
    return {**name, **entry, "model": model, "strategy": strategy}


def is_expression(name: str) -> bool:
    """Whether a judge's name says more than the model that is asked."""
    return name == "offline" or "(" in name


def _is_code(name: str, entry: Mapping[str, Any]) -> bool:
    """Whether the name is a person's own judge; a model at an endpoint of its own may be called alike (`mistral:latest`)."""
    return ":" in name and "/" not in name and not entry.get("api_base") and judge.parse_name(name).kind == "code"


def try_judge(strategy: str) -> None:
    """Raises UnknownName, BadName or SpecError, in one line, where a strategy's judge is none or cannot be made."""
    try:
        judge.make_judge(strategy)
    except Problem:
        raise
    # What a person's own class may raise when it is made.
    except (ArithmeticError, AttributeError, LookupError, NameError, OSError, RuntimeError, TypeError, ValueError) as error:
        told = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise SpecError(f"judge {strategy!r} cannot be made ({told}); its class is called without arguments") from error


class ModelSpec(Strict):
    """A model and how to ask it."""

    model: str = Field(min_length=1, description="as litellm names it, or offline/..., replay/...")
    name: str = Field(default="", description="what tables call it; the model where empty")
    prompt: str | None = Field(default=None, description="path of a prompt file, from the spec's folder")
    max_tokens: int = Field(default=1000, ge=1, description="longest answer, in tokens")
    temperature: float | None = Field(default=0.0, ge=0, description="null: the provider's default")
    seed: int | None = Field(default=None, description="sampling seed that is sent to the model")
    extra: dict[str, Any] = Field(default_factory=dict, description="further sampling parameters, sent as they are")
    price: Annotated[PriceSpec | None, BeforeValidator(_price, json_schema_input_type=Literal[0] | PriceSpec | None)] = Field(
        default=None, description="0, or dollars a Mtok"
    )
    context_window: int | None = Field(default=None, ge=1, description="tokens of prompt and answer together")
    api_base: str | None = Field(default=None, description="URL of the endpoint")
    transport: Literal["direct", "litellm"] | None = Field(
        default=None, description="direct: OpenAI's protocol at api_base; null: direct where the endpoint speaks it, else litellm"
    )
    api_key_env: str | None = Field(default=None, description="name of the worker's environment variable that holds the key")
    timeout_s: float = Field(default=600.0, gt=0, description="seconds that one attempt may take")

    @property
    def label(self) -> str:
        """What tables call it."""
        return self.name or self.model

    def sampling(self) -> dict[str, Any]:
        """The semantic parameters that go with each call."""
        fixed = {"max_tokens": self.max_tokens, "temperature": self.temperature, "seed": self.seed}
        return {**{name: value for name, value in fixed.items() if value is not None}, **self.extra}


class SummarizerSpec(ModelSpec):
    """A summarizer: a model and a strategy."""

    strategy: str = Field(default="direct", description="how the model is asked; or module:Class")


class JudgeSpec(ModelSpec):
    """A judge: a model and a strategy."""

    strategy: str = Field(
        default="per_insight", description="how the model is asked; or module:Class; offline/judge by default per_summary"
    )
    max_tokens: int = Field(default=200, ge=1, description="longest answer, in tokens")


class LimitsSpec(Strict):
    """What one model may be asked."""

    rpm: float | None = Field(default=None, gt=0, description="requests a minute")
    input_tpm: float | None = Field(default=None, gt=0, description="input tokens a minute")
    output_tpm: float | None = Field(default=None, gt=0, description="output tokens a minute")
    concurrency: int = Field(default=64, ge=1, description="calls at once, over the whole cluster")


class StageBudgets(Strict):
    """Dollars that a stage never exceeds."""

    summarize: float | None = Field(default=None, ge=0)
    judge: float | None = Field(default=None, ge=0)


class RunSpec(Strict):
    """A run: haystacks x queries x retrievers x orderings x summarizers x repeats, each summary judged by every judge."""

    ASKED: ClassVar[str] = "summarizer or judge"

    name: str = Field(default="run", min_length=1, description="for people; not part of the run's identity")
    haystacks: list[str] = Field(
        min_length=1, description="released JSON files from the spec's folder, sample/NAME, or store/SHA256/NAME"
    )
    retrievers: list[str] = Field(min_length=1, description="random, bm25, oracle, full, none, released/NAME, ...")
    orderings: list[str] = Field(default=["given"], min_length=1, description="of `full`: given, random, top, bottom, middle")
    token_budget: int = Field(default=15000, ge=1, description="cl100k tokens of documents that retrieval may show")
    repeats: int = Field(default=1, ge=1, description="samples for each cell")
    summarizers: list[Annotated[SummarizerSpec, BeforeValidator(model_entry, json_schema_input_type=Text | SummarizerSpec)]] = (
        Field(min_length=1, description="who summarizes")
    )
    judges: list[Annotated[JudgeSpec, BeforeValidator(_judge, json_schema_input_type=Text | JudgeSpec)]] = Field(
        default=[JudgeSpec(model="offline/judge", strategy=judge.default_strategy("offline/judge"))],
        min_length=1,
        description="who judges every summary",
    )
    budget_usd: float | None = Field(default=None, ge=0, description="the run never spends more; null: no bound")
    stage_budgets_usd: StageBudgets = Field(default=StageBudgets(), description="stage -> it never spends more in this run")
    model_budgets_usd: dict[str, Dollars] = Field(default_factory=dict, description="model -> it never spends more in this run")
    limits: dict[str, LimitsSpec] = Field(default_factory=dict, description="model -> what it may be asked")
    workers: int | None = Field(default=None, ge=1, description="worker actors; null: one for each CPU, at most 4")
    endpoint_url: str | None = Field(default=None, description="URL of an S3 service other than AWS's, of an s3:// store")
    seed: int = Field(default=0, description="of random retrieval, random and middle orderings, and intervals")

    def models(self) -> Sequence[ModelSpec]:
        """Every model of the spec, summarizers first."""
        return [*self.summarizers, *self.judges]

    def partners(self) -> list[str]:
        """The further models that judges ask by their strategies, each once."""
        return list(dict.fromkeys(partner for one in self.judges for partner in judge.partners(one.strategy)))

    def stage_budgets(self) -> dict[str, float]:
        """Stage -> its budget in dollars, for the stages that have one."""
        return {name: dollars for name, dollars in self.stage_budgets_usd.model_dump().items() if dollars is not None}


class RejudgeSpec(RunSpec):
    """Judges for the summaries that a run holds already: what makes summaries is the run's."""

    haystacks: list[str] = Field(default=[], max_length=0)
    retrievers: list[str] = Field(default=[], max_length=0)
    summarizers: list[Annotated[SummarizerSpec, BeforeValidator(model_entry)]] = Field(default=[], max_length=0)


_PYDANTICS = re.compile(r"dictionary(?: or instance of \w+)?")
_SEMANTIC_MODEL = {"model", "name", "max_tokens", "temperature", "seed", "extra", "strategy"}

Spec = TypeVar("Spec", bound=RunSpec)
Part = TypeVar("Part", bound=Strict)


def semantic_model(model: ModelSpec, prompt: str) -> dict[str, Any]:
    """The part of a model's spec that makes it another system; `prompt` is the identity of what it is asked with."""
    return {**model.model_dump(include=_SEMANTIC_MODEL), "prompt": prompt}


def read_spec(path: str, overrides: Iterable[str] = ()) -> tuple[RunSpec, Path]:
    """The spec at `path` with `a.b=c` overrides, and the folder that its paths start from. Raises SpecError."""
    fields, folder = read_fields(path)
    return parse_spec(fields, path, overrides), folder


def read_fields(path: str) -> tuple[dict[str, Any], Path]:
    """The fields of the YAML file at `path`, unchecked, and its folder. Raises SpecError."""
    file = Path(path)
    try:
        loaded = load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpecError(f"{path}: no such file; give the path of a spec (YAML)") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: cannot be read: {error}") from error
    except YamlError as error:
        raise SpecError(f"{path}:{error}") from error
    if not isinstance(loaded, dict):
        raise SpecError(f"{path}: expected a mapping of fields such as haystacks: [...], found {type(loaded).__name__}")
    return loaded, file.parent


def parse_spec(fields: Mapping[str, Any], where: str = "spec", overrides: Iterable[str] = ()) -> RunSpec:
    """The spec from a mapping, as the Python API takes it, with `a.b=c` overrides. Raises SpecError."""
    return _parsed(RunSpec, fields, where, overrides)


def parse_rejudge(fields: Mapping[str, Any], where: str = "rejudge", overrides: Iterable[str] = ()) -> RejudgeSpec:
    """The judges and their settings from a mapping of fields of a run's spec. Raises SpecError."""
    return _parsed(RejudgeSpec, fields, where, overrides)


def _parsed(kind: type[Spec], fields: Mapping[str, Any], where: str, overrides: Iterable[str]) -> Spec:
    spec = validated(kind, fields, where, overrides)
    _check_names(spec, where)
    return spec


def validated(kind: type[Part], fields: Mapping[str, Any], where: str, overrides: Iterable[str] = ()) -> Part:
    """The fields as a `kind`, with `a.b=c` overrides. Raises SpecError: one line that names the field."""
    changed = copy.deepcopy(dict(fields))
    for override in overrides:
        _override(changed, override)
    try:
        return kind.model_validate(changed)
    except ValidationError as error:
        raise SpecError(f"{where}: {_explain(error, kind)}") from error


def _check_names(spec: RunSpec, where: str) -> None:
    for field in ("haystacks", "retrievers", "orderings"):
        names = getattr(spec, field)
        for name in names:
            if names.count(name) > 1:
                raise SpecError(f"{where}: {field}: {name!r} stands twice; leave one out")
    for field in ("summarizers", "judges"):
        labels = [model.label for model in getattr(spec, field)]
        for index, label in enumerate(labels):
            if label in labels[:index]:
                raise SpecError(f"{where}: {field}[{index}]: {label!r} stands twice; give one of them another name: NAME")
    check_models(spec, where)


def check_models(spec: RunSpec, where: str) -> None:
    """Raises SpecError where a model cannot be reached or asked as it is written, or where limits name one that is not asked."""
    for model in spec.models():
        if wrong := flaw(model.extra, model.api_base, model.api_key_env) or reach_flaw(model.transport, model.api_base):
            raise SpecError(f"{where}: {model.label}: {wrong}")
        if model.price is None and (wrong := tier_flaw(model.extra)):
            raise SpecError(f"{where}: {model.label}: {wrong}")
    if wrong := endpoint_flaw(spec.endpoint_url):
        raise SpecError(f"{where}: {wrong}")
    try:
        known = [*(model.model for model in spec.models()), *spec.partners()]
    except Problem as error:
        raise SpecError(f"{where}: judges: {error}") from error
    for field, named in (("limits", spec.limits), ("model_budgets_usd", spec.model_budgets_usd)):
        for name in named:
            if name not in known:
                raise SpecError(f"{where}: {field}: no {spec.ASKED} uses {name!r}{_near(name, known)}")
    for name in known:
        if name in ("offline", "replay", "offline/", "replay/"):
            raise SpecError(f"{where}: model {name!r}: expected offline/NAME or replay/NAME")


def _override(fields: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    if not equals or not path:
        raise SpecError(f"--set {override}: expected a.b=c, for example --set limits.openai/gpt-4o.rpm=100")
    try:
        value = load(text)
    except YamlError as error:
        raise SpecError(f"--set {override}: the value is not YAML") from error
    *parents, last = _split(path)
    target: Any = fields
    for part in parents:
        target = _step(target, part, override)
    if isinstance(target, list):
        target[_index(target, last, override)] = value
    elif isinstance(target, dict):
        target[last] = value
    else:
        raise SpecError(f"--set {override}: {'.'.join(parents)} holds no fields")


def _split(path: str) -> list[str]:
    # Model names hold dots (gpt-3.5): what stands in quotes is one part.
    parts, quoted = [""], False
    for letter in path:
        if letter == '"':
            quoted = not quoted
        elif letter == "." and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _step(target: Any, part: str, override: str) -> Any:
    if isinstance(target, list):
        return target[_index(target, part, override)]
    if isinstance(target, dict):
        return target.setdefault(part, {})
    raise SpecError(f"--set {override}: nothing lies under {part!r}")


def _index(target: list[Any], part: str, override: str) -> int:
    if not part.isdigit() or int(part) >= len(target):
        raise SpecError(f"--set {override}: expected an index from 0 to {len(target) - 1} instead of {part!r}")
    return int(part)


def _explain(error: ValidationError, kind: type[Strict]) -> str:
    # A misspelt field is also a missing one: naming the misspelling helps more.
    first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    if first["type"] == "extra_forbidden":
        *parents, last = first["loc"]
        known = sorted(_fields_at(kind, parents))
        return f"{path}: unknown field{_near(str(last), known)}"
    found = "" if first["type"] == "missing" else f", found {_shown(first['input'])}"
    if first["type"] == "value_error":
        return f"{path}: {first['ctx']['error']}"
    said = _PYDANTICS.sub("mapping", first["msg"])
    return f"{path}: {said[:1].lower()}{said[1:]}{found}"


def _shown(value: Any) -> str:
    try:
        return json.dumps(value, default=str, ensure_ascii=True)[:80]
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__} that cannot be shown"


def _fields_at(kind: type[Strict], path: Iterable[Any]) -> list[str]:
    model: Any = kind
    for part in path:
        if isinstance(part, str) and isinstance(model, type) and issubclass(model, BaseModel) and part in model.model_fields:
            model = _inner(model.model_fields[part].annotation)
    return list(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []


def _inner(annotation: Any) -> Any:
    for part in typing.get_args(annotation):
        found = _inner(part)
        if isinstance(found, type) and issubclass(found, BaseModel):
            return found
    return annotation


def _near(name: str, known: Iterable[str]) -> str:
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known: {', '.join(names)}" if names else ""
