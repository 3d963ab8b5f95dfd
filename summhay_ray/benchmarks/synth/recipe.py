"""The inputs of a synthesis: topics, domain, shape and models."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from summhay_ray.benchmark import Inputs, RunModels
from summhay_ray.benchmarks.summhay.grid.grid import check_models
from summhay_ray.benchmarks.synth.spec import SynthSpec
from summhay_ray.benchmarks.synth.topics import alone, stored_topics, topics_of
from summhay_ray.errors import SpecError
from summhay_ray.local_models import WRITER
from summhay_ray.synth import (
    Difficulty,
    Domain,
    Group,
    Shape,
    Topic,
    TopicRecipe,
    check_placement,
    domain_from,
    is_english,
    load_domain,
    parse_domain,
)
from summhay_ray.text import count_tokens, semantic_hash

_ROOM = 4000
"""Tokens of a prompt in addition to its context."""
_IDENTITY = {"model", "max_tokens", "temperature", "seed", "revision", "extra"}
"""Settings of a model on which haystacks depend."""


class Recipe:
    """The topics of a spec, and the recipe of each topic."""

    def __init__(self, spec: SynthSpec, inputs: Inputs, models: RunModels) -> None:
        self.spec, self.models, self._inputs = spec, models, inputs
        self.difficulty = Difficulty(**spec.difficulty.model_dump())
        if inputs.record is None:
            # Read the files of domain and topics now: their content is part of the run's identity.
            _ = self.domain, self.topics
            check_models(spec.model_entries())
            _check_stages(self)
            check_placement(self.shape, self.difficulty, self.domain)

    @functools.cached_property
    def domain(self) -> Domain:
        """The domain that the spec names. For a stored run, it is the stored version."""
        name = self.spec.domain
        if self._inputs.record is not None:
            return domain_from(self._inputs.record["domain"], "stored domain")
        return parse_domain(self._inputs.text(name), name) if name.endswith((".yaml", ".yml")) else load_domain(name)

    @functools.cached_property
    def topics(self) -> Sequence[Topic]:
        """The topics in the spec's order. A run's workers do not need it."""
        if self._inputs.record is None or self._inputs.store is None:
            return topics_of(self.spec, self._inputs)
        return [topic for _, topic in stored_topics(self._inputs.store, self._inputs.record)]

    @functools.cached_property
    def shape(self) -> Shape:
        spec = self.spec
        return Shape(spec.subtopics, spec.insights, spec.documents, spec.words or self.domain.words)

    @functools.cached_property
    def semantic_part(self) -> dict[str, Any]:
        """Everything except the topic on which a haystack depends."""
        spec = self.spec
        models: dict[str, Any] = {}
        for stage, model in spec.models.by_stage().items():
            kept = {name: value for name, value in model.semantic().items() if name in _IDENTITY}
            models[stage] = {**kept, **self.models.revision(model.model)}
        return {
            "domain": domain_json(self.domain, self.domain.hashes()),
            "shape": asdict(self.shape),
            "difficulty": spec.difficulty.model_dump(),
            "models": models,
            "license": spec.license,
            "seed": spec.seed,
            **({"absent": spec.absent} if spec.absent else {}),
        }

    def cell_id(self, topic: Topic) -> str:
        """Return a hash (32 hex digits) of everything on which the topic's haystack depends. The spec's other topics do not
        matter."""
        return semantic_hash({**self.semantic_part, "topic": asdict(alone(topic))})[:32]

    def of(self, topic: Topic) -> TopicRecipe:
        """Return the recipe of one topic. Its haystack does not depend on the spec's other topics (see `alone`)."""
        spec = self.spec
        # Endpoints are left out: the same answers give the same haystack.
        metadata = {"license": spec.license, "models": self.semantic_part["models"]}
        only, cell_id = alone(topic), self.cell_id(topic)
        return TopicRecipe(cell_id, only, self.domain, self.shape, self.difficulty, spec.seed, metadata, spec.absent)


def domain_json(domain: Domain, prompts: Mapping[Any, str]) -> dict[str, Any]:
    """Return a domain as JSON, with the given `prompts` (texts or hashes)."""
    values = {field.name: getattr(domain, field.name) for field in fields(domain)}
    return {**values, "participants": list(domain.participants), "prompts": dict(prompts)}


def _check_stages(recipe: Recipe) -> None:
    """Raise SpecError if a stage's model cannot do its task: it cuts documents off, reads another language, or its window is
    too small."""
    spec, models, language = recipe.spec, recipe.spec.models, recipe.domain.language
    longest, words = models.write.max_tokens, recipe.shape.words
    if longest < 2 * words:
        few = f"{longest} tokens are too few for documents of {words} words; give at least {2 * words}"
        raise SpecError(f"synth: models.write.max_tokens: {few}")

    if not is_english(language):
        if spec.absent:
            which = f"the subjects that no document says anything about are English, not {language}"
            raise SpecError(f"synth: absent: {which}; leave it out")
        for stage, model in models.by_stage().items():
            if model.local:
                does = "reads" if stage == "check" else "writes"
                raise SpecError(f"synth: models.{stage}: {WRITER} {does} English, and the domain is in {language}; name a model")
        if models.check is None:
            raise SpecError(f"synth: models.check: offline checks read English, and the domain is in {language}; name a model")

    # The context is in the prompts of the outline and, unless documents have chapters, in those of the documents.
    stages: tuple[Group, ...] = ("outline",) if recipe.domain.method == "chapters" else ("outline", "write")
    for stage in stages:
        model = models.by_stage()[stage]
        if (window := model.window()) is None:
            continue
        if (room := window - model.max_tokens - _ROOM) < 0:
            needed = f"max_tokens {model.max_tokens:,} and a prompt of about {_ROOM:,}"
            raise SpecError(f"synth: models.{stage}: the window of {window:,} tokens cannot hold {needed}; lower max_tokens")
        for topic in recipe.topics:
            tokens = sum(map(count_tokens, topic.context))
            if tokens > room:
                problem = f"the context of {topic.name!r} has {tokens:,} tokens; {model.model} has room for {room:,}"
                raise SpecError(f"synth: topics: {problem}; shorten it, or name another model for {stage}")
