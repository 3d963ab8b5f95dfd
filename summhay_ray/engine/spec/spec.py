"""The spec, which is the YAML file that describes a run: its parser, and the fields that every spec has.

An unknown field is refused with the nearest known name. Every error is one line with the file, the field and what was expected.
`Spec.semantic` returns the fields that determine the run's id.
"""

from __future__ import annotations

import copy
import difflib
import json
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from summhay_ray.engine.spec.checks import check_untrusted, endpoint_flaw, flaw, values_in
from summhay_ray.errors import SpecError, UserError
from summhay_ray.inputs import read_file, read_json
from summhay_ray.llm import (
    PRICED_BY,
    QUERY_FIELD,
    REVISION,
    Limits,
    ModelSettings,
    Task,
    Unpriced,
    address_of,
    batch_wire,
    find_price,
    find_window,
    is_local,
    is_service,
    known_extra,
    lacking,
    provider_of,
    service_flaw,
    transport_of,
)
from summhay_ray.yaml_text import MAX_MB, YamlError, load

STORED = {"stored": True}
"""The validation context for the spec of a stored run, in which validators do not import the user's code."""


class Strict(BaseModel):
    """The base class of every part of a spec. It is frozen, and refuses unknown fields, other types and infinite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    LATER: ClassVar[frozenset[str]] = frozenset()
    """Fields that were added after the first stored runs. If such a field has its default, it is left out of the identity, so
    that old ids stay valid."""

    def identifying(self) -> list[str]:
        """Return the names of the fields that are part of the identity."""
        fields = type(self).model_fields
        return [name for name in fields if name not in self.LATER or getattr(self, name) != fields[name].default]

    @classmethod
    def parse(cls, fields: Mapping[str, Any], where: str, overrides: Sequence[str] = ()) -> Self:
        """Return an instance from the fields, with the `a.b=c` overrides applied. Raises SpecError, which names the field and
        `where`."""
        changed = apply_overrides(fields, overrides) if overrides else fields
        if open_fields := [name for name, value in changed.items() if value in (FILL_IN, [FILL_IN])]:
            raise SpecError(f"{where}: {', '.join(open_fields)}: to be filled in")
        try:
            return cls.model_validate(changed)
        except ValidationError as error:
            raise SpecError(f"{where}: {_explain(error, cls)}") from error


Dollars = Annotated[float, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]
"""A text that is not empty."""


class PriceSpec(Strict):
    """A model's prices, in US dollars per million tokens."""

    input_per_mtok: float | None = Field(default=None, ge=0, description="input tokens")
    output_per_mtok: float | None = Field(default=None, ge=0, description="output tokens")
    cached_input_per_mtok: float | None = Field(
        default=None, ge=0, description="input tokens that are read from the provider's cache"
    )
    cache_write_per_mtok: float | None = Field(
        default=None, ge=0, description="input tokens that are written to the provider's cache"
    )
    cache_write_1h_per_mtok: float | None = Field(
        default=None, ge=0, description="input tokens that are written to a cache that keeps them for an hour"
    )
    per_search: float = Field(default=0.0, ge=0, description="US dollars per search, for services billed by searches")
    flex_factor: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="price with service_tier: flex, as a fraction of the standard price; null: the known fraction, or 0.5",
    )
    batch_factor: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="price in a batch, as a fraction of the standard price; null: the known fraction, or 0.5",
    )

    @model_validator(mode="after")
    def _whole(self) -> PriceSpec:
        rates = ("input_per_mtok", "output_per_mtok")
        missing = [name for name in rates if getattr(self, name) is None]
        others = ("cached_input_per_mtok", "cache_write_per_mtok", "cache_write_1h_per_mtok", "per_search")
        factors = self.batch_factor, self.flex_factor
        if len(missing) == 1 or (missing and (factors == (None, None) or any(getattr(self, name) for name in others))):
            raise ValueError(f"{missing[0]}: field required")
        return self


def _price(value: Any) -> Any:
    if value == 0 and not isinstance(value, bool):
        return {"input_per_mtok": 0, "output_per_mtok": 0}
    if value is None or isinstance(value, Mapping | PriceSpec):
        return value
    such = "dollars per million tokens, such as {input_per_mtok: 2.5, output_per_mtok: 10}"
    raise ValueError(f"expected 0, or {such}; found {_quote(value)}")


class BatchSpec(Strict):
    """Settings of a model's requests to the provider's batch API."""

    max_wait_h: float = Field(
        default=24.0, gt=0, description="hours after which a batch is cancelled; its missing answers are requested again"
    )
    min_requests: int = Field(default=1, ge=1, description="if fewer requests than this wait, they are sent synchronously")


ANSWERS = "answers/"
"""Prefix of a model's name if its answers come from a file."""


class Reach(Strict):
    """A model's endpoint, limits and price. These fields are not part of the identity."""

    price: Annotated[PriceSpec | None, BeforeValidator(_price, json_schema_input_type=Literal[0] | PriceSpec | None)] = Field(
        default=None, description="0, or dollars per million tokens; null: the model's known price"
    )
    context_window: int | None = Field(default=None, ge=1, description="maximum tokens of prompt plus answer")
    api_base: str | None = Field(default=None, description="URL of the endpoint")
    transport: Literal["direct", "litellm"] | None = Field(
        default=None, description="direct: OpenAI's protocol; null: direct if the provider supports it, else litellm"
    )
    api_key_env: str | None = Field(default=None, description="name of the worker's environment variable that holds the key")
    timeout_s: float | None = Field(
        default=None, gt=0, description="maximum time for one attempt, in seconds; null: 600, or no maximum for transformers/..."
    )
    max_answer_bytes: int | None = Field(
        default=None, ge=1024, description="maximum size of a response body, in bytes; null: 1 MiB + 32 x max_tokens"
    )
    token_margin: float = Field(default=1.0, ge=1, le=1e6, description="multiplier of the tokens that are reserved for a call")
    service_tier: Literal["flex"] | None = Field(
        default=None, description="flex: a slower and cheaper service, whose price must be known; not part of an answer's key"
    )
    fallback: Literal["standard"] | None = Field(
        default=None,
        description="standard: send a call to the standard tier if flex has no capacity; null: wait for flex",
    )
    cache: bool | Literal["5m", "1h"] = Field(
        default=True,
        description="lifetime in Anthropic's cache: 5m or 1h; true: 1h in a batch, else 5m; false: no cache",
    )
    batch: Annotated[
        BatchSpec | None,
        BeforeValidator(
            lambda value: {} if value is True else None if value is False else value,
            json_schema_input_type=bool | BatchSpec | None,
        ),
    ] = Field(default=None, description="true or settings: send requests to the provider's batch API, at about half the price")


class ModelSpec(Reach):
    """A model, its sampling parameters, and how it is reached."""

    LATER = frozenset({REVISION, "answers"})
    APART: ClassVar[frozenset[str]] = frozenset(Reach.model_fields)
    """Fields that `semantic` leaves out."""
    PRICED_BY: ClassVar[Sequence[str]] = PRICED_BY
    """The price fields that the model needs, for error messages."""
    TASK: ClassVar[Task] = "chat"
    """The model's task; see `Request.task`."""
    QUERY_FIELD: ClassVar[str] = QUERY_FIELD
    """The field of `extra` that names the field in which a search service expects the query."""

    model: str = Field(min_length=1, description="the model's name in litellm, or offline/..., replay/...")
    name: str = Field(default="", description="the model's name in tables; empty: `model`")
    prompt: str | None = Field(default=None, description="path of a prompt file, relative to the spec's folder")
    max_tokens: int = Field(default=1000, ge=1, description="longest answer, in tokens")
    temperature: float | None = Field(default=0.0, ge=0, description="sampling temperature; null: the provider's default")
    seed: int | None = Field(default=None, description="sampling seed sent to the model")
    revision: str = Field(default="", description="version of the model behind this name; part of the identity, but never sent")
    extra: dict[str, Any] = Field(default_factory=dict, description="further sampling parameters, sent unchanged")
    answers: str | None = Field(
        default=None, description="path of a file with the answers, as JSON lines of query_id and text; no model is asked"
    )

    @staticmethod
    def entry(value: Any) -> Any:
        """Return a model's entry in the spec as a mapping. The entry may be a name, or have `answers` instead of `model`. Raises
        ValueError."""
        if isinstance(value, str):
            return {"model": value}
        if not isinstance(value, Mapping) or value.get("answers") is None or value.get("model"):
            return value
        if not value.get("name"):
            raise ValueError(f"answers {value['answers']!r}: give them a name: NAME")
        return {**value, "model": f"{ANSWERS}{value['name']}"}

    @property
    def label(self) -> str:
        """The model's name in tables."""
        return self.name or self.model

    @property
    def local(self) -> bool:
        """Whether the model runs in the worker and needs no key."""
        return is_local(self.model)

    @staticmethod
    def is_service(model: str) -> bool:
        """Return whether a model's name has a provider's prefix. Without a prefix, an embedding model runs in this process."""
        return is_service(model)

    def window(self) -> int | None:
        """Return the model's context window in tokens (prompt plus answer); None if unknown."""
        return find_window(self.model, self.context_window)

    def is_priced(self) -> bool:
        """Return whether the model has a known price. Raises UserError for a model that cannot be asked."""
        try:
            find_price(self.model, None)
        except Unpriced:
            return False
        return True

    def sampling(self) -> dict[str, Any]:
        """Return the sampling parameters of each call, which are part of the call's key."""
        fixed = {"max_tokens": self.max_tokens, "temperature": self.temperature, "seed": self.seed}
        known = {REVISION: self.revision} if self.revision else {}
        return {**{name: value for name, value in fixed.items() if value is not None}, **known, **self.extra}

    def semantic(self) -> dict[str, Any]:
        """Return the fields that are part of the identity, as JSON: all except those in `APART`."""
        return self.model_dump(mode="json", include=set(self.identifying()) - self.APART)


class LimitsSpec(Strict):
    """The rate limits of one model."""

    rpm: float | None = Field(default=None, gt=0, description="requests per minute")
    input_tpm: float | None = Field(default=None, gt=0, description="input tokens per minute")
    output_tpm: float | None = Field(default=None, gt=0, description="output tokens per minute")
    concurrency: int = Field(
        default=64, ge=1, description="maximum concurrent calls of the whole cluster; for transformers/..., prompts per batch"
    )


class RangeSpec(Strict):
    """The minimum and maximum number of actors. The actual number depends on the amount of work."""

    min: int = Field(default=0, ge=0, description="minimum number of actors, kept even if fewer would suffice")
    max: int = Field(ge=1, description="maximum number of actors; an autoscaling cluster starts nodes for them")

    @model_validator(mode="after")
    def _in_order(self) -> RangeSpec:
        if self.min > self.max:
            raise ValueError(f"min is {self.min} and max is {self.max}; give a min of {self.max} or less")
        return self


def _range(value: Any) -> Any:
    """Convert a number of actors to a range."""
    return {"min": value, "max": value} if isinstance(value, int) and not isinstance(value, bool) and value > 0 else value


Range = Annotated[RangeSpec, BeforeValidator(_range, json_schema_input_type=Annotated[int, Field(ge=1)] | RangeSpec)]
"""A number of actors, or a mapping with `min` and `max`."""


class ResourcesSpec(Strict):
    """Resources of the actors that run models in this cluster."""

    actors: Range = Field(default=RangeSpec(min=1, max=1), description="number of actors, or min and max; each loads the model")
    cpus: float = Field(default=1.0, gt=0, description="CPUs (and threads) per actor, or fewer if the cluster has fewer")
    gpus: float = Field(
        default=0.0, ge=0, description="GPUs per actor; with a fraction, actors share a GPU; 0: the model runs on CPUs"
    )
    batch_tokens: int = Field(default=16384, ge=1, description="for embed: maximum tokens per batch, including padding")
    batch_size: int | None = Field(default=None, ge=1, description="for embed: maximum number of texts per batch")


Model = Annotated[ModelSpec, BeforeValidator(ModelSpec.entry, json_schema_input_type=Text | ModelSpec)]
"""A model in a spec: a name, or a mapping with the fields of `ModelSpec`."""


def _bounds(value: Any) -> Any:
    """Return the budgets without null values, which mean no budget."""
    return {name: dollars for name, dollars in value.items() if dollars is not None} if isinstance(value, Mapping) else value


StageBudgets = Annotated[dict[str, Dollars], BeforeValidator(_bounds, json_schema_input_type=dict[str, Dollars | None])]


class Spec(Strict):
    """The fields that every spec has. A benchmark's spec class adds its own."""

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
    """Fields that do not change the run's id."""

    kind: str = Field(default="", description="the benchmark: its name, or module:Class for one of your own")
    name: str = Field(default="run", min_length=1, description="a name for people; not part of the run's identity")
    budget_usd: float | None = Field(default=None, ge=0, description="maximum dollars that the run may spend; null: no maximum")
    stage_budgets_usd: StageBudgets = Field(
        default_factory=dict, description="stage -> maximum dollars that it may spend in this run"
    )
    model_budgets_usd: dict[str, Dollars] = Field(
        default_factory=dict, description="model -> maximum dollars that it may spend in this run"
    )
    limits: dict[str, LimitsSpec] = Field(default_factory=dict, description="model -> its rate limits")
    workers: Range | None = Field(
        default=None,
        description="number of actors that call models, or min and max; null: one per CPU, at most 4 per node, more on demand",
    )
    resources: dict[str, ResourcesSpec] = Field(
        default_factory=dict, description="embed, or a family of models such as transformers -> its actors and GPUs"
    )
    executor: Literal["auto", "inline", "ray"] = Field(
        default="auto", description="inline: in this process, without Ray; auto: inline for small runs"
    )
    endpoint_url: str | None = Field(default=None, description="URL of an S3 service other than AWS, for an s3:// store")
    seed: int = Field(default=0, description="seed of all random choices")

    @model_validator(mode="after")
    def _labels_differ(self) -> Self:
        """Raise ValueError if two models of a list have the same name in tables."""
        for field in type(self).model_fields:
            listed = getattr(self, field)
            labels = [one.label for one in listed if isinstance(one, ModelSpec)] if isinstance(listed, list) else []
            for index, label in enumerate(labels):
                if label in labels[:index]:
                    raise ValueError(f"{field}[{index}]: {label!r} is listed twice; give one of them another name: NAME")
        return self

    def model_entries(self) -> Sequence[ModelSpec]:
        """Return every model entry in the spec, in the order of its fields."""
        return [value for value in values_in(self) if isinstance(value, ModelSpec)]

    def semantic(self) -> dict[str, Any]:
        """Return the fields that determine the run's id, as JSON."""
        return {name: _semantic(getattr(self, name)) for name in self.identifying() if name not in self.NOT_SEMANTIC}

    def settings_of(self, models: Sequence[ModelSpec]) -> dict[str, ModelSettings]:
        """Return model -> its settings: endpoint, limits and price. Raises SpecError for a model without a price."""
        known: dict[str, ModelSettings] = {}
        for model in models:
            limits, reach = self.limits.get(model.model), model.model_dump(include=set(Reach.model_fields))
            known_limits = Limits(**limits.model_dump()) if limits else Limits()
            try:
                settings = ModelSettings.written(model.model, reach, known_limits, model.PRICED_BY)
            except Unpriced as error:
                raise SpecError(f"spec: {error}") from error
            if known.setdefault(model.model, settings) != settings:
                *fields, last = Reach.model_fields
                same = f"{', '.join(fields)} and {last}"
                raise SpecError(
                    f"spec: {model.model!r} is listed twice with different settings; give both entries the same {same}"
                )
        return known

    def check(self, where: str, stages: Sequence[str], untrusted: Path | None = None) -> None:
        """Raise SpecError if a model's entry is invalid, or if a limit, a budget or `resources` names an unknown model or stage.

        `untrusted`: the folder of the spec if it is somebody else's, for `check_untrusted`; else None.
        """
        if untrusted is not None:
            try:
                check_untrusted(self, untrusted)
            except UserError as error:
                raise SpecError(f"{where}: {error}") from error
        for model in self.model_entries():
            if wrong := flaw(model.extra, model.api_base, model.api_key_env, model.price is not None):
                raise SpecError(f"{where}: {model.label}: {wrong}")
            if model.service_tier and model.batch:
                raise SpecError(f"{where}: {model.label}: service_tier: a batch has a price of its own; leave one of the two out")
            if model.fallback and not model.service_tier:
                raise SpecError(f"{where}: {model.label}: fallback: is for a service tier; add service_tier: flex")
            if model.transport == "direct" and not address_of(model.model, model.api_base):
                mend = "add api_base: URL, or leave transport out"
                raise SpecError(f"{where}: {model.label}: transport: direct needs an endpoint; {mend}")
            if wrong := lacking(model.model, model.TASK, model.api_base):
                raise SpecError(f"{where}: {model.label}: {'model' if model.TASK == 'chat' else model.TASK}: {wrong}")
            way = transport_of(model.model, model.TASK, model.api_base, model.transport)
            if way == "direct" and (wrong := service_flaw(model.api_base or "", model.TASK)):
                raise SpecError(f"{where}: {model.label}: {wrong}")
            if model.batch is not None and (model.TASK != "chat" or not batch_wire(model.model, model.api_base, model.transport)):
                raise SpecError(f"{where}: {model.label}: batch: no batch API is known for it; leave batch out")
            fields = known_extra(model.model, way, model.api_base)
            if fields is not None and (unknown := [name for name in model.extra if name not in fields]):
                nearest = difflib.get_close_matches(unknown[0], sorted(fields), n=1, cutoff=0.0)[0]
                why = f"{provider_of(model.model) or 'this model'} is not asked with this field"
                raise SpecError(
                    f"{where}: {model.label}: extra.{unknown[0]}: {why}; the nearest that it may be given is {nearest}"
                )
        if self.endpoint_url is not None and (wrong := endpoint_flaw(self.endpoint_url)):
            raise SpecError(f"{where}: {wrong}")
        try:
            known = [model.model for model in self.model_entries()]
        except SpecError:
            raise
        except UserError as error:
            raise SpecError(f"{where}: {error}") from error
        for field, named in (("limits", self.limits), ("model_budgets_usd", self.model_budgets_usd)):
            for name in named:
                if name not in known:
                    raise SpecError(f"{where}: {field}: nothing in the spec asks {name!r}{suggestion(name, known)}")
        for name in self.stage_budgets_usd:
            if name not in stages:
                raise SpecError(f"{where}: stage_budgets_usd: no stage is named {name!r}{suggestion(name, stages)}")
        families = sorted({name.partition("/")[0] for name in known if is_local(name)})
        for name in self.resources:
            if name not in ("embed", *families):
                expected = f"expected one of {', '.join(('embed', *families))}"
                raise SpecError(f"{where}: resources: nothing in the spec computes in actors of {name!r}; {expected}")
            for field in ("batch_tokens", "batch_size"):
                # Refuse it, since an answer must not depend on the other calls in a batch.
                if name != "embed" and getattr(self.resources[name], field) != ResourcesSpec.model_fields[field].default:
                    raise SpecError(
                        f"{where}: resources: {name}: {field} is for embed only; its models answer one call at a time"
                    )
        for name in known:
            if name in ("offline", "replay", "offline/", "replay/"):
                raise SpecError(f"{where}: model {name!r}: expected offline/NAME or replay/NAME")

    @staticmethod
    def read_fields(path: str) -> tuple[dict[str, Any], Path]:
        """Return the unchecked fields of the YAML file at `path`, and its folder. Raises SpecError.

        A `.json` file is read as JSON, and may be larger than a spec. So a user who gives a data file instead of a spec gets a
        helpful message.
        """
        file = Path(path)
        is_json = file.suffix.lower() == ".json"
        if file.is_dir():
            raise SpecError(f"{path}: is a folder; give the path of a spec (YAML), which summhay init writes")
        try:
            text = (read_json(file) if is_json else read_file(file, MAX_MB)).decode("utf-8")
            loaded = _json(text) if is_json else load(text)
        except FileNotFoundError:
            raise SpecError(f"{path}: no such file; give the path of a spec (YAML)") from None
        except OSError as error:
            raise SpecError(f"{path}: cannot be read: {error.strerror or error}; give the path of a spec (YAML)") from error
        except UnicodeDecodeError as error:
            raise SpecError(f"{path}: is not text in UTF-8 ({error}); give the path of a spec (YAML)") from error
        except YamlError as error:
            raise SpecError(f"{path}:{error}") from error
        if not isinstance(loaded, dict):
            content = "an empty file" if loaded is None else f"{type(loaded).__name__} {_quote(loaded)}"
            raise SpecError(
                f"{path}: expected a mapping of fields such as name: my-run, found {content}; summhay init writes a spec"
            )
        return loaded, file.parent


def _semantic(value: Any) -> Any:
    if isinstance(value, ModelSpec):
        return value.semantic()
    if isinstance(value, Strict):
        return {name: _semantic(getattr(value, name)) for name in value.identifying()}
    if isinstance(value, Mapping):
        return {str(name): _semantic(inner) for name, inner in value.items()}
    return [_semantic(inner) for inner in value] if isinstance(value, list | tuple) else value


_PYDANTICS = re.compile(r"dictionary(?: or instance of \w+)?")


FILL_IN = "FILL-IN"
"""Placeholder in a starter spec for a value that only the user knows."""


def _json(text: str) -> Any:
    """Return the value of a JSON text. Raises YamlError."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"duplicate key {twice!r}; remove one")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise YamlError(f" not JSON: {error}") from error


def apply_overrides(fields: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return a copy of the fields with the `a.b=c` overrides applied. Raises SpecError."""
    changed = copy.deepcopy(dict(fields))
    for override in overrides:
        path, equals, text = override.partition("=")
        if not equals or not path:
            raise SpecError(f"--set {override}: expected a.b=c, for example --set budget_usd=5")
        try:
            value = load(text)
        except YamlError as error:
            raise SpecError(f"--set {override}: the value is not YAML") from error
        *parents, last = _split(path)
        target: Any = changed
        for part in parents:
            if not isinstance(target, list | dict):
                raise SpecError(f"--set {override}: there is nothing under {part!r}")
            target = target[_index(target, part, override)] if isinstance(target, list) else target.setdefault(part, {})
        if isinstance(target, list | dict):
            key: Any = _index(target, last, override) if isinstance(target, list) else last
            target[key] = value
            continue
        place = ".".join(parents)
        mend = f", it is {target!r}; set it whole, as in --set '{place}={{{last}: {text}}}'" if isinstance(target, str) else ""
        raise SpecError(f"--set {override}: {place} holds no fields{mend}")
    return changed


def _split(path: str) -> list[str]:
    # A part may be quoted, since model names may contain dots (gpt-3.5).
    parts, quoted = [""], False
    for letter in path:
        if letter == '"':
            quoted = not quoted
        elif letter == "." and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _index(target: list[Any], part: str, override: str) -> int:
    if not part.isdigit() or int(part) >= len(target):
        raise SpecError(f"--set {override}: expected an index from 0 to {len(target) - 1} instead of {part!r}")
    return int(part)


def _explain(error: ValidationError, kind: type[Strict]) -> str:
    # A misspelled required field is also reported as missing. The message about the misspelling is more helpful.
    first = min(error.errors(), key=lambda entry: entry["type"] != "extra_forbidden")
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    if first["type"] == "extra_forbidden":
        *parents, last = first["loc"]
        known = sorted(_fields_at(kind, parents))
        return f"{path}: unknown field{suggestion(str(last), known)}"
    found = "" if first["type"] == "missing" else f", found {_quote(first['input'])}"
    if first["type"] == "value_error":
        # The message of a spec's own validator names the field itself.
        return f"{path}: {first['ctx']['error']}" if path else str(first["ctx"]["error"])
    message = _PYDANTICS.sub("mapping", first["msg"])
    return f"{path}: {message[:1].lower()}{message[1:]}{found}"


def _quote(value: Any) -> str:
    try:
        return json.dumps(value, default=str, ensure_ascii=True)[:80]
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__} that cannot be shown"


def _fields_at(kind: type[Strict], path: Iterable[Any]) -> list[str]:
    model: Any = kind
    for part in path:
        if isinstance(part, str) and isinstance(model, type) and issubclass(model, BaseModel) and part in model.model_fields:
            # Find the first model inside the annotation, such as the class of a list's entries.
            inside = [model.model_fields[part].annotation]
            for model in inside:
                if isinstance(model, type) and issubclass(model, BaseModel):
                    break
                inside += typing.get_args(model)
    return list(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest known name or, if none is similar, all known names."""
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known: {', '.join(names)}" if names else ""
