"""The models of a run: how each is reached, which answer in the worker, and what enters the keys of their calls. Part of the
engine room."""

from __future__ import annotations

import functools
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

from summhay_ray.engine.spec.given_answers import GivenAnswers
from summhay_ray.engine.spec.inputs import Inputs
from summhay_ray.engine.spec.spec import ModelSpec, Spec
from summhay_ray.llm import GeneratingModel, LocalModel, ModelSettings, is_local


class RunModels:
    """The models that a spec names. `own`: the benchmark's models that answer in the worker, by name or by `provider/`."""

    def __init__(
        self,
        spec: Spec,
        inputs: Inputs,
        own: Callable[[], Mapping[str, LocalModel]],
        settings: Callable[[], dict[str, ModelSettings]],
    ) -> None:
        self._spec, self._inputs, self._own = spec, inputs, own
        self.settings = settings
        """Model -> how it is reached and what it costs. Raises SpecError for a model without a price."""

    @functools.cached_property
    def given_answers(self) -> Mapping[str, GivenAnswers]:
        """Model -> its answers, for models whose answers come from a file. Raises SpecError, naming the line, for a bad file."""
        entries = [entry for entry in self._spec.model_entries() if entry.answers is not None]
        return {
            entry.model: GivenAnswers(entry.model, self._inputs.read(str(entry.answers)), str(entry.answers)) for entry in entries
        }

    @functools.cached_property
    def local(self) -> Mapping[str, LocalModel]:
        """All models that answer in the worker: files of answers, the benchmark's own and this package's."""
        return ChainMap(dict(self.given_answers), self._own())  # type: ignore[arg-type]

    def find(self, model: str) -> LocalModel | None:
        """The model that answers in the worker under this name; None if there is none."""
        return self.local.get(model) or self.local.get(f"{model.partition('/')[0]}/")

    def generates(self) -> bool:
        """Whether a model in the worker generates its answers, which takes far longer than to plan them."""
        return any(isinstance(self.find(name), GeneratingModel) for name, model in self.settings().items() if model.local)

    def revision(self, model: str) -> dict[str, Any]:
        """A sampling parameter with the revision of a local model, so that it enters the key; empty for any other model."""
        if not is_local(model):
            return {}
        local = self.find(model)
        return {"extra_body": {"revision": local.revision}} if local else {}

    def sampling(self, entry: ModelSpec) -> dict[str, Any]:
        """The sampling parameters of a model's entry, as its calls send them and as they enter the keys."""
        return {**entry.sampling(), **self.revision(entry.model)}
