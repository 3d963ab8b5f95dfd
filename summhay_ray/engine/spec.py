"""The spec: the YAML that describes a run, with the fields that every benchmark's spec has. Part of the engine room.

Unknown fields are refused with the nearest known name; every error is one line naming the file, the field and what was
expected. Which fields are semantic (they make the run's id) stands in `Spec.semantic`.
"""

from __future__ import annotations

import copy
import difflib
import json
import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema

from summhay_ray.engine.model_check import endpoint_flaw, flaw, reach_flaw, tier_flaw
from summhay_ray.errors import UserError
from summhay_ray.inputs import read_file
from summhay_ray.llm import REVISION, Limits, ModelSettings, Unpriced, is_local
from summhay_ray.yaml_text import MAX_MB, YamlError, load


class SpecError(UserError):
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
    per_search: float = Field(default=0.0, ge=0, description="US dollars of a search, where a service is billed by searches")


def _price(value: Any) -> Any:
    return {"input_per_mtok": 0, "output_per_mtok": 0} if value == 0 and not isinstance(value, bool) else value


ANSWERS = "answers/"
"""How the name of a model begins whose answers lie in a file."""


def model_entry(value: Any) -> Any:
    """A model's entry as a mapping: a name alone is one, and so is a file of answers. Raises ValueError."""
    if isinstance(value, str):
        return {"model": value}
    if not isinstance(value, Mapping) or value.get("answers") is None or value.get("model"):
        return value
    if not value.get("name"):
        raise ValueError(f"answers {value['answers']!r}: give them a name: NAME")
    return {**value, "model": f"{ANSWERS}{value['name']}"}


class Reach(Strict):
    """How a model is reached, and what it costs: no part of any identity."""

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
    max_answer_bytes: int | None = Field(default=None, ge=1024, description="of a response body; null: 1 MiB + 32 x max_tokens")
    token_margin: float = Field(default=1.0, ge=1, le=1e6, description="times the tokens that are reserved")


def _no_answers(value: Any) -> None:
    if value is not None:
        raise ValueError("a file holds one text for each query, and this model is asked about each of many; name a model")


NoAnswers = Annotated[SkipJsonSchema[None], BeforeValidator(_no_answers)]
"""The field `answers` of a model that is asked several questions about a query: there is none."""


class ModelSpec(Reach):
    """A model and how to ask it."""

    LATER: ClassVar[frozenset[str]] = frozenset({REVISION, "answers"})
    """Fields that came when runs were kept already: at their default they are no part of the identity."""

    model: str = Field(min_length=1, description="as litellm names it, or offline/..., replay/...")
    name: str = Field(default="", description="what tables call it; the model where empty")
    prompt: str | None = Field(default=None, description="path of a prompt file, from the spec's folder")
    max_tokens: int = Field(default=1000, ge=1, description="longest answer, in tokens")
    temperature: float | None = Field(default=0.0, ge=0, description="null: the provider's default")
    seed: int | None = Field(default=None, description="sampling seed that is sent to the model")
    revision: str = Field(default="", description="which checkpoint answers by this name: part of the identity, never sent")
    extra: dict[str, Any] = Field(default_factory=dict, description="further sampling parameters, sent as they are")
    answers: str | None = Field(default=None, description="JSON lines of query_id and text, made elsewhere: no model is asked")

    @property
    def label(self) -> str:
        """What tables call it."""
        return self.name or self.model

    def sampling(self) -> dict[str, Any]:
        """The semantic parameters that go with each call."""
        fixed = {"max_tokens": self.max_tokens, "temperature": self.temperature, "seed": self.seed}
        known = {REVISION: self.revision} if self.revision else {}
        return {**{name: value for name, value in fixed.items() if value is not None}, **known, **self.extra}

    def semantic(self) -> dict[str, Any]:
        """What makes it the model that it is, as JSON: all but how it is reached and paid."""
        known = type(self).model_fields
        at_default = {name for name in self.LATER if getattr(self, name) == known[name].default}
        return self.model_dump(mode="json", exclude={*REACH, *at_default})


class LimitsSpec(Strict):
    """What one model may be asked."""

    rpm: float | None = Field(default=None, gt=0, description="requests a minute")
    input_tpm: float | None = Field(default=None, gt=0, description="input tokens a minute")
    output_tpm: float | None = Field(default=None, gt=0, description="output tokens a minute")
    concurrency: int = Field(default=64, ge=1, description="calls at once, over the whole cluster")


class ResourcesSpec(Strict):
    """What the models of a stage that run in actors of their own may have."""

    actors: int = Field(default=1, ge=1, description="processes, each with the model")
    cpus: float = Field(default=1.0, gt=0, description="CPUs that each holds, and so many threads, as far as there are")
    gpus: float = Field(default=0.0, ge=0, description="GPUs that each holds; a part of one is shared; 0: it computes on CPUs")
    batch_tokens: int = Field(default=16384, ge=1, description="tokens that are computed together, padding counted")
    batch_size: int | None = Field(default=None, ge=1, description="texts that are computed together, at most")


Model = Annotated[ModelSpec, BeforeValidator(model_entry, json_schema_input_type=Text | ModelSpec)]
"""A model in a spec: its name, or a mapping of the fields of `ModelSpec`."""


def _bounds(value: Any) -> Any:
    """The stages that have a budget: null is no bound."""
    return {name: dollars for name, dollars in value.items() if dollars is not None} if isinstance(value, Mapping) else value


StageBudgets = Annotated[dict[str, Dollars], BeforeValidator(_bounds, json_schema_input_type=dict[str, Dollars | None])]


class Spec(Strict):
    """The fields that the spec of every run has; a benchmark adds its own."""

    NOT_SEMANTIC: ClassVar[frozenset[str]] = frozenset(
        {
            "kind",
            "name",
            "budget_usd",
            "stage_budgets_usd",
            "model_budgets_usd",
            "limits",
            "workers",
            "resources",
            "executor",
            "endpoint_url",
        }
    )
    """Fields that do not make the run another one."""

    kind: str = Field(default="", description="the benchmark: its name, or module:Class for one of your own")
    name: str = Field(default="run", min_length=1, description="for people; not part of the run's identity")
    budget_usd: float | None = Field(default=None, ge=0, description="the run never spends more; null: no bound")
    stage_budgets_usd: StageBudgets = Field(default_factory=dict, description="stage -> it never spends more in this run")
    model_budgets_usd: dict[str, Dollars] = Field(default_factory=dict, description="model -> it never spends more in this run")
    limits: dict[str, LimitsSpec] = Field(default_factory=dict, description="model -> what it may be asked")
    workers: int | None = Field(default=None, ge=1, description="worker actors; null: one for each CPU, at most 4")
    resources: dict[str, ResourcesSpec] = Field(
        default_factory=dict, description="embed, or transformers -> actors and GPUs of models in this cluster"
    )
    executor: Literal["auto", "inline", "ray"] = Field(default="auto", description="inline: in this process, without Ray")
    endpoint_url: str | None = Field(default=None, description="URL of an S3 service other than AWS's, of an s3:// store")
    seed: int = Field(default=0, description="of all that is drawn at random")

    def model_entries(self) -> Sequence[ModelSpec]:
        """Every model that the spec names, in the order of its fields."""
        return list(_models_in([getattr(self, name) for name in type(self).model_fields]))

    def partners(self) -> list[str]:
        """Further models that are asked without an entry of their own, each once."""
        return []

    def semantic(self) -> dict[str, Any]:
        """The fields that make the run the one that it is, as JSON."""
        return {name: _semantic(getattr(self, name)) for name in type(self).model_fields if name not in self.NOT_SEMANTIC}


def _models_in(value: Any) -> Iterator[ModelSpec]:
    if isinstance(value, ModelSpec):
        yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _models_in(getattr(value, name))
    elif isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _models_in(inner)


def _semantic(value: Any) -> Any:
    if isinstance(value, ModelSpec):
        return value.semantic()
    if isinstance(value, BaseModel):
        return {name: _semantic(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {str(name): _semantic(inner) for name, inner in value.items()}
    return [_semantic(inner) for inner in value] if isinstance(value, list | tuple) else value


REACH = ("price", "token_margin", "context_window", "api_base", "api_key_env", "max_answer_bytes", "timeout_s", "transport")
"""What a model's entry says of how it is reached and paid: no part of any identity."""

_PYDANTICS = re.compile(r"dictionary(?: or instance of \w+)?")
Part = TypeVar("Part", bound=Strict)


def model_settings(spec: Spec, models: Sequence[ModelSpec]) -> dict[str, ModelSettings]:
    """Model -> how to reach it and what it costs, partners included. Raises SpecError for a model without a price."""
    found: dict[str, ModelSettings] = {}
    for model in models:
        settings = _written(spec, model.model, model.model_dump(include=set(REACH)))
        if found.setdefault(model.model, settings) != settings:
            alike = f"{', '.join(REACH[:-1])} and {REACH[-1]}"
            raise SpecError(f"spec: {model.model!r} is listed twice with different settings; give both entries the same {alike}")
    for partner in spec.partners():
        if partner not in found:
            found[partner] = _written(spec, partner, {})
    return found


def _written(spec: Spec, model: str, reach: Mapping[str, Any]) -> ModelSettings:
    limits = spec.limits.get(model)
    try:
        return ModelSettings.written(model, reach, Limits(**limits.model_dump()) if limits else Limits())
    except Unpriced as error:
        raise SpecError(f"spec: {error}") from error


FILL_IN = "FILL-IN"
"""What a starter spec has in the place of what nobody but the person knows."""


def read_fields(path: str) -> tuple[dict[str, Any], Path]:
    """The fields of the YAML file at `path`, unchecked, and its folder. Raises SpecError."""
    file = Path(path)
    try:
        loaded = load(read_file(file, MAX_MB).decode("utf-8"))
    except FileNotFoundError:
        raise SpecError(f"{path}: no such file; give the path of a spec (YAML)") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: cannot be read: {error}") from error
    except YamlError as error:
        raise SpecError(f"{path}:{error}") from error
    if not isinstance(loaded, dict):
        raise SpecError(f"{path}: expected a mapping of fields such as name: my-run, found {type(loaded).__name__}")
    return loaded, file.parent


def validated(kind: type[Part], fields: Mapping[str, Any], where: str, overrides: Iterable[str] = ()) -> Part:
    """The fields as a `kind`, with `a.b=c` overrides. Raises SpecError: one line that names the field."""
    changed = copy.deepcopy(dict(fields))
    for override in overrides:
        _override(changed, override)
    if open_fields := [name for name, value in changed.items() if value in (FILL_IN, [FILL_IN])]:
        raise SpecError(f"{where}: {', '.join(open_fields)}: to be filled in")
    try:
        return kind.model_validate(changed)
    except ValidationError as error:
        raise SpecError(f"{where}: {_explain(error, kind)}") from error


def check_spec(spec: Spec, where: str, stages: Sequence[str]) -> None:
    """Raises SpecError where a model cannot be asked as it is written, or a limit or budget names what is not there."""
    for model in spec.model_entries():
        if wrong := flaw(model.extra, model.api_base, model.api_key_env) or reach_flaw(model.transport, model.api_base):
            raise SpecError(f"{where}: {model.label}: {wrong}")
        if model.price is None and (wrong := tier_flaw(model.extra)):
            raise SpecError(f"{where}: {model.label}: {wrong}")
    if wrong := endpoint_flaw(spec.endpoint_url):
        raise SpecError(f"{where}: {wrong}")
    try:
        known = [*(model.model for model in spec.model_entries()), *spec.partners()]
    except SpecError:
        raise
    except UserError as error:
        raise SpecError(f"{where}: {error}") from error
    for field, named in (("limits", spec.limits), ("model_budgets_usd", spec.model_budgets_usd)):
        for name in named:
            if name not in known:
                raise SpecError(f"{where}: {field}: nothing in the spec asks {name!r}{near(name, known)}")
    for name in spec.stage_budgets_usd:
        if name not in stages:
            raise SpecError(f"{where}: stage_budgets_usd: no stage is named {name!r}{near(name, stages)}")
    families = sorted({name.partition("/")[0] for name in known if is_local(name)})
    for name in spec.resources:
        if name not in ("embed", *families):
            told = f"expected one of {', '.join(('embed', *families))}"
            raise SpecError(f"{where}: resources: nothing in the spec computes in actors of {name!r}; {told}")
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
        mend = f", it is {target!r}; write a mapping there in the spec" if isinstance(target, str) else ""
        raise SpecError(f"--set {override}: {'.'.join(parents)} holds no fields{mend}")


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
        return f"{path}: unknown field{near(str(last), known)}"
    found = "" if first["type"] == "missing" else f", found {_shown(first['input'])}"
    if first["type"] == "value_error":
        # What a spec's own check found names the field itself.
        return f"{path}: {first['ctx']['error']}" if path else str(first["ctx"]["error"])
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


def near(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, else all of them."""
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known: {', '.join(names)}" if names else ""
